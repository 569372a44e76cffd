#include "heal.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "moving.h"
#include "page_size.h"
#include "sys.h"

/* Pages of the ranges in their order, which need not be that of addresses, each once; no batch goes
 * on from the probe into the rest. */
struct walk {
    const struct nm_range *ranges;
    size_t count, index;
    uintptr_t next; /* 0: at the start of ranges[index] */
    size_t probe;   /* pages of it that are still to come */
};

/* The walk, from which the workers take a batch each, and what came of all of them. */
struct work {
    struct walk walk;
    int node;
    bool given_up;
    struct nm_healing healing;
    struct nm_progress progress;
    pthread_mutex_t lock;
};

struct healer {
    struct work *work;
    struct nm_batch batch;
};

/* Of two ranges that share a page, which follow each other then, it is walked with the first. */
static void next_range(struct walk *walk) {
    uintptr_t behind = walk->next;
    if (++walk->index == walk->count) return;
    uintptr_t first = nm_page_at((uintptr_t)walk->ranges[walk->index].start);
    walk->next = first + nm_page_bytes() == behind ? behind : first;
}

/* Faulted in later: that can take its time, and other workers wait for the walk. */
static void next_batch(struct walk *walk, struct nm_batch *batch, int node) {
    size_t most = walk->probe > 0 && walk->probe < NM_MOVE_BATCH ? walk->probe : NM_MOVE_BATCH;
    batch->filled = 0;
    while (batch->filled < most && walk->index < walk->count) {
        const struct nm_range *range = &walk->ranges[walk->index];
        uintptr_t first = nm_page_at((uintptr_t)range->start);
        uintptr_t page = walk->next > first ? walk->next : first;
        if (page >= (uintptr_t)range->start + range->bytes) {
            next_range(walk);
            continue;
        }
        batch->pages[batch->filled] = (void *)page;
        batch->nodes[batch->filled++] = node;
        walk->next = page + nm_page_bytes();
    }
    walk->probe -= walk->probe > 0 ? batch->filled : 0;
}

static void fault_in(const struct nm_batch *batch) {
    for (size_t i = 0; i < batch->filled; ++i) (void)*(volatile const char *)batch->pages[i];
}

/* A huge page is moved with the first of its pages, and the answers for the others are not to be
 * trusted: ask afresh. */
static size_t count_there(struct nm_batch *batch, int node) {
    if (nm_move_pages(batch->filled, batch->pages, NULL, batch->status) != 0) return 0;
    size_t there = 0;
    for (size_t i = 0; i < batch->filled; ++i) there += batch->status[i] == node;
    return there;
}

static bool probe_failed(const struct work *work) {
    const struct nm_healing *healing = &work->healing;
    return work->walk.probe == 0 && healing->pages > 0 && healing->there < healing->pages / 2;
}

static void book(struct work *work, const struct nm_batch *batch, size_t there, bool refused) {
    work->healing.pages += batch->filled;
    work->healing.there += there;
    if (batch->error != 0) work->healing.error = batch->error;
    work->given_up = work->given_up || refused || probe_failed(work);
}

static void heal_in_turn(void *worker) {
    struct healer *healer = worker;
    struct work *work = healer->work;
    struct nm_batch *batch = &healer->batch;
    pthread_mutex_lock(&work->lock);
    bool probing = work->walk.probe > 0;
    while (!work->given_up && (work->walk.probe > 0) == probing) {
        next_batch(&work->walk, batch, work->node);
        if (batch->filled == 0) break;
        pthread_mutex_unlock(&work->lock);
        fault_in(batch);
        int error = nm_batch_move(batch);
        size_t there = count_there(batch, work->node);
        nm_progress_add(&work->progress, batch->filled * nm_page_bytes());
        pthread_mutex_lock(&work->lock);
        book(work, batch, there, error != 0 && error != EBUSY);
    }
    pthread_mutex_unlock(&work->lock);
}

/* The probe alone, and then, unless that was all or went nowhere, the rest together. */
static void heal_all(struct work *work, struct healer *healers, unsigned count) {
    if (work->walk.probe > 0) heal_in_turn(healers);
    if (!work->given_up && work->walk.probe == 0)
        nm_move_together(heal_in_turn, healers, sizeof *healers, count);
}

struct nm_healing nm_heal(const struct nm_range *ranges, size_t count, int node,
                          size_t probe_bytes) {
    struct work work = {.walk = {.ranges = ranges, .count = count},
                        .node = node,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    unsigned movers = nm_movers();
    struct healer *healers = calloc(movers, sizeof *healers);
    if (healers == NULL) return (struct nm_healing){.error = ENOMEM};
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += ranges[i].bytes;
    for (unsigned i = 0; i < movers; ++i) healers[i].work = &work;
    work.walk.probe = probe_bytes / nm_page_bytes();
    nm_progress_begin(&work.progress, bytes);
    heal_all(&work, healers, movers);
    nm_progress_end(&work.progress);
    free(healers);
    return work.healing;
}

const char *nm_heal_reason(int error) {
    switch (error) {
        case EPERM:
            return "move_pages: EPERM: a seccomp profile, as containers have, forbids it";
        case ENOSYS:
            return "move_pages: ENOSYS: the kernel or a seccomp profile does not offer it";
        case EACCES:
            return "other processes map the same file, and its pages are theirs too";
        case EBUSY:
            return "the pages are pinned, as memory registered with a GPU is";
        case ENOMEM:
            return "their node has no room for them";
        case ENODEV:
            return "their node is not allowed to this process";
        default:
            return "the kernel left them where they are";
    }
}
