#include "interleave.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "events.h"
#include "filter.h"
#include "heal.h"
#include "moving.h"
#include "observe.h"
#include "page_size.h"
#include "refusal.h"
#include "sys.h"

static const uintptr_t BLOCK = 2u << 20; /* a huge page moves as a whole */

/* The new weights, which the workers take one after the other. */
struct work {
    struct nm_table *table;
    const bool *is_new;
    int nodes[NM_MAX_COPIES * NM_MAX_NODES_PER_COPY], node_count;
    _Atomic size_t next;
    _Atomic int asking; /* errno of asking where pages are: the end of it */
    struct nm_progress progress;
};

/* A worker: memory for one call of move_pages, and what came of all of them. */
struct spreading {
    struct work *work;
    struct nm_batch batch;
    size_t moved; /* bytes of weights that were not yet spread */
};

static int list_nodes(int *nodes) {
    int count = 0;
    for (int copy = 0; copy < nm_config.copies; ++copy)
        for (int i = 0; i < nm_config.copy[copy].node_count; ++i)
            nodes[count++] = nm_config.copy[copy].nodes[i];
    return count;
}

/* Of the pages that belong to the buffer alone; 0 or an errno. */
static int set_policy(uintptr_t start, size_t bytes, int mode, const int *nodes, int count) {
    uintptr_t first = nm_page_from(start), end = nm_page_at(start + bytes);
    if (nm_config.rehearsal != 0 || first >= end || nm_filter_noticed()) return 0;
    return nm_mbind((void *)first, end - first, mode, nodes, count);
}

void nm_interleave_undo(uintptr_t start, size_t bytes) {
    set_policy(start, bytes, NM_MPOL_DEFAULT, NULL, 0);
}

void nm_interleave_ahead(uintptr_t start, size_t bytes) {
    int nodes[NM_MAX_COPIES * NM_MAX_NODES_PER_COPY], count = list_nodes(nodes);
    int error = set_policy(start, bytes, NM_MPOL_INTERLEAVE, nodes, count);
    if (error != 0) nm_say_refused(NM_MBIND, error, "weights are spread by moving their pages");
}

static void spread(struct spreading *s, const struct nm_weight *weight) {
    uintptr_t end = weight->start + weight->bytes;
    const struct work *work = s->work;
    for (uintptr_t page = nm_page_at(weight->start); page < end; page += nm_page_bytes()) {
        nm_batch_add(&s->batch, page, page < weight->start ? weight->start : page,
                     work->nodes[page / BLOCK % (uintptr_t)work->node_count]);
        if (s->batch.filled < NM_MOVE_BATCH && page + nm_page_bytes() < end) continue;
        nm_batch_move(&s->batch);
        s->batch.filled = 0;
    }
    s->moved += weight->bytes;
}

/* What is due to a copy's node, or nodes, of 256 pages. */
static int due_256(const struct work *work, int copy) {
    return 256 * nm_config.copy[copy].node_count / work->node_count;
}

/* No share is further off than a sample of an even spread is in one case of some hundreds: three
 * times the root of p (1 - p) / pages. */
static bool is_even(const struct work *work, const struct nm_weight *weight) {
    long pages = (long)nm_observe_pages(weight);
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        long due = due_256(work, copy), off = weight->local_256[copy] - due;
        if (off * off * pages > 9 * due * (256 - due)) return false;
    }
    return true;
}

/* 0, or the errno of asking where its pages are. */
static int spread_unless_even(struct spreading *s, struct nm_weight *weight) {
    bool changed = false;
    int error = nm_observe_weight(weight, &changed);
    if (error != 0 || is_even(s->work, weight)) return error;
    spread(s, weight);
    return nm_observe_weight(weight, &changed);
}

static void spread_in_turn(void *worker) {
    struct spreading *s = worker;
    struct work *work = s->work;
    size_t i;
    while ((i = atomic_fetch_add(&work->next, 1)) < work->table->count) {
        struct nm_weight *weight = &work->table->weights[i];
        if (!work->is_new[i] || atomic_load(&work->asking) != 0) continue;
        int error = spread_unless_even(s, weight);
        if (error != 0) {
            atomic_store(&work->asking, error);
            continue;
        }
        weight->state = NM_WEIGHT_INTERLEAVED;
        nm_progress_add(&work->progress, weight->bytes);
    }
}

/* ---- saying where they are ---- */

/* Of all sampled pages, the share on a copy's node, in percent. */
static double share_of(const struct nm_table *table, int copy) {
    double pages = 0, there = 0;
    for (size_t i = 0; i < table->count; ++i) {
        const struct nm_weight *weight = &table->weights[i];
        if (weight->state != NM_WEIGHT_INTERLEAVED) continue;
        pages += (double)weight->bytes;
        there += (double)weight->bytes * weight->local_256[copy] / 256;
    }
    return pages == 0 ? 0 : there * 100 / pages;
}

/* All and nothing are said of no less and no more, as in numamirror_cli/figures.py. */
static void spell_percent(char *text, size_t room, double percent) {
    bool is_nearly = (percent > 0 && percent < 1) || (percent >= 99 && percent < 100);
    if (percent > 0 && percent < 0.05)
        snprintf(text, room, "<0.1");
    else
        snprintf(text, room, "%.*f", is_nearly, is_nearly && percent > 99.9 ? 99.9 : percent);
}

static void say(const struct work *work, size_t moved, int error, double seconds) {
    char where[320] = "", what[448];
    bool even = true;
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        double share = share_of(work->table, copy), due = due_256(work, copy) / 2.56;
        even = even && share > due * 0.75 && share < due * 1.25;
        char percent[16];
        spell_percent(percent, sizeof percent, share);
        size_t at = strlen(where);
        snprintf(where + at, sizeof where - at, "%s%s %% on node %s", at == 0 ? "" : ", ", percent,
                 nm_config.copy[copy].nodes_text);
    }
    snprintf(what, sizeof what, "interleave: of the sampled pages of weights %s", where);
    if (moved > 0)
        snprintf(what + strlen(what), sizeof what - strlen(what),
                 "; pages of %.0f MiB were moved in %.2f s", (double)moved / (1 << 20), seconds);
    nm_note(even ? "info" : "warn", what, even ? "" : nm_heal_reason(error), "");
}

static size_t bytes_to_spread(const struct work *work) {
    size_t sum = 0;
    for (size_t i = 0; i < work->table->count; ++i)
        if (work->is_new[i]) sum += work->table->weights[i].bytes;
    return sum;
}

static void spread_all(struct work *work, struct spreading *workers, unsigned count) {
    uint64_t start = nm_clock_ns(CLOCK_MONOTONIC);
    size_t moved = 0;
    int error = 0;
    for (unsigned i = 0; i < count; ++i) workers[i].work = work;
    nm_progress_begin(&work->progress, bytes_to_spread(work));
    nm_move_together(spread_in_turn, workers, sizeof *workers, count);
    nm_progress_end(&work->progress);
    for (unsigned i = 0; i < count; ++i) {
        moved += workers[i].moved;
        if (workers[i].batch.error != 0) error = workers[i].batch.error;
    }
    double seconds = (double)(nm_clock_ns(CLOCK_MONOTONIC) - start) * 1e-9;
    if (atomic_load(&work->asking) == 0) say(work, moved, error, seconds);
}

const char *nm_interleave(struct nm_table *table, const bool *is_new) {
    static struct spreading alone; /* where memory is short; under the registry's lock */
    struct work work = {.table = table, .is_new = is_new};
    if (nm_config.rehearsal != 0) return "a rehearsal has no nodes to spread pages over";
    unsigned count = nm_movers();
    struct spreading *workers = calloc(count, sizeof *workers);
    work.node_count = list_nodes(work.nodes);
    alone = (struct spreading){0};
    spread_all(&work, workers == NULL ? &alone : workers, workers == NULL ? 1 : count);
    free(workers);
    int error = atomic_load(&work.asking);
    if (error == 0) return "";
    nm_say_refused(NM_MOVE_PAGES, error, "where the weights' pages are is not known");
    return "where the weights' pages are is not known: move_pages is refused";
}
