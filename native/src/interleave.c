#include "interleave.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "events.h"
#include "filter.h"
#include "heal.h"
#include "observe.h"
#include "page_size.h"
#include "refusal.h"
#include "sys.h"

enum { BATCH = 16384 };

static const uintptr_t BLOCK = 2u << 20; /* a huge page moves as a whole */

/* Memory for one call of move_pages, and what came of all of them. */
struct spreading {
    void *pages[BATCH];
    int target[BATCH], status[BATCH];
    size_t filled;
    int nodes[NM_MAX_COPIES * NM_MAX_NODES_PER_COPY], node_count;
    size_t moved; /* bytes of weights that were not yet spread */
    int error;    /* of a move; 0 when all pages were moved */
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

static void move_batch(struct spreading *s) {
    if (s->filled == 0) return;
    int error = nm_move_pages(s->filled, s->pages, s->target, s->status);
    if (error != 0) s->error = error;
    for (size_t i = 0; error == 0 && i < s->filled; ++i)
        if (s->status[i] < 0) s->error = -s->status[i];
    s->filled = 0;
}

/* Faulted in, so that it has a place. */
static void spread(struct spreading *s, const struct nm_weight *weight) {
    uintptr_t end = weight->start + weight->bytes;
    for (uintptr_t page = nm_page_at(weight->start); page < end; page += nm_page_bytes()) {
        (void)*(volatile const char *)(page < weight->start ? weight->start : page);
        s->pages[s->filled] = (void *)page;
        s->target[s->filled++] = s->nodes[page / BLOCK % (uintptr_t)s->node_count];
        if (s->filled == BATCH) move_batch(s);
    }
    move_batch(s);
    s->moved += weight->bytes;
}

/* What is due to a copy's node, or nodes, of 256 pages. */
static int due_256(const struct spreading *s, int copy) {
    return 256 * nm_config.copy[copy].node_count / s->node_count;
}

/* No share is further off than a sample of an even spread is in one case of some hundreds: three
 * times the root of p (1 - p) / pages. */
static bool is_even(const struct spreading *s, const struct nm_weight *weight) {
    long pages = (long)nm_observe_pages(weight);
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        long due = due_256(s, copy), off = weight->local_256[copy] - due;
        if (off * off * pages > 9 * due * (256 - due)) return false;
    }
    return true;
}

/* 0, or the errno of asking where its pages are. */
static int spread_unless_even(struct spreading *s, struct nm_weight *weight) {
    bool changed = false;
    int error = nm_observe_weight(weight, &changed);
    if (error != 0 || is_even(s, weight)) return error;
    spread(s, weight);
    return nm_observe_weight(weight, &changed);
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

static void say(const struct nm_table *table, const struct spreading *s, double seconds) {
    char where[320] = "", what[448];
    bool even = true;
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        double share = share_of(table, copy), due = due_256(s, copy) / 2.56;
        even = even && share > due * 0.75 && share < due * 1.25;
        size_t at = strlen(where);
        snprintf(where + at, sizeof where - at, "%s%.0f %% on node %s", at == 0 ? "" : ", ", share,
                 nm_config.copy[copy].nodes_text);
    }
    snprintf(what, sizeof what, "interleave: of the sampled pages of weights %s", where);
    if (s->moved > 0)
        snprintf(what + strlen(what), sizeof what - strlen(what),
                 "; pages of %.0f MiB were moved in %.2f s", (double)s->moved / (1 << 20), seconds);
    nm_note(even ? "info" : "warn", what, even ? "" : nm_heal_reason(s->error), "");
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *nm_interleave(struct nm_table *table, const bool *is_new) {
    static struct spreading spreading; /* under the registry's lock */
    struct spreading *s = &spreading;
    if (nm_config.rehearsal != 0) return "a rehearsal has no nodes to spread pages over";
    s->node_count = list_nodes(s->nodes);
    s->moved = 0;
    s->error = 0;
    double start = now();
    int error = 0;
    for (size_t i = 0; i < table->count && error == 0; ++i) {
        if (!is_new[i]) continue;
        error = spread_unless_even(s, &table->weights[i]);
        if (error == 0) table->weights[i].state = NM_WEIGHT_INTERLEAVED;
    }
    if (error == 0) say(table, s, now() - start);
    if (error == 0) return "";
    nm_say_refused(NM_MOVE_PAGES, error, "where the weights' pages are is not known");
    return "where the weights' pages are is not known: move_pages is refused";
}
