#include "moving.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "events.h"
#include "sys.h"

enum { MOST_MOVERS = 8 };

/* ---- a batch ---- */

void nm_batch_add(struct nm_batch *batch, uintptr_t page, uintptr_t address, int node) {
    (void)*(volatile const char *)address;
    batch->pages[batch->filled] = (void *)page;
    batch->nodes[batch->filled++] = node;
}

struct rest {
    void *pages[NM_MOVE_BATCH];
    int nodes[NM_MOVE_BATCH], status[NM_MOVE_BATCH];
};

/* Pages of the batch that are to go to the node and were not found there; they count as found. */
static size_t take_rest(struct nm_batch *batch, int node, struct rest *rest) {
    size_t count = 0;
    for (size_t i = 0; i < batch->filled; ++i) {
        if (batch->nodes[i] != node || batch->status[i] < 0 || batch->status[i] == node) continue;
        rest->pages[count] = batch->pages[i];
        rest->nodes[count++] = node;
        batch->status[i] = node;
    }
    return count;
}

/* How many pages are where they are to be; the places of all are in `status` then. */
static size_t pages_in_place(struct nm_batch *batch) {
    if (nm_move_pages(batch->filled, batch->pages, NULL, batch->status) != 0) return 0;
    size_t there = 0;
    for (size_t i = 0; i < batch->filled; ++i) there += batch->status[i] == batch->nodes[i];
    return there;
}

/* Since 4.17 the kernel gives up at the first run of pages to one node of which one stays, and does
 * not come to those behind it (do_pages_move in mm/migrate.c). They are offered again, those of a
 * node together, unless nothing is in place: all of it is pinned then. */
static int move_rest(struct nm_batch *batch) {
    size_t there = pages_in_place(batch);
    struct rest *rest = there == 0 ? NULL : calloc(1, sizeof *rest);
    if (rest == NULL) return EBUSY;
    for (size_t i = 0; i < batch->filled; ++i) {
        if (batch->status[i] < 0 || batch->status[i] == batch->nodes[i]) continue;
        size_t count = take_rest(batch, batch->nodes[i], rest);
        nm_move_pages(count, rest->pages, rest->nodes, rest->status);
    }
    free(rest);
    return pages_in_place(batch) == batch->filled ? 0 : EBUSY;
}

/* The call succeeds although pages stay; each then says why. */
int nm_batch_move(struct nm_batch *batch) {
    int error = nm_move_pages(batch->filled, batch->pages, batch->nodes, batch->status);
    if (error == EBUSY) error = move_rest(batch);
    if (error != 0) batch->error = error;
    for (size_t i = 0; error == 0 && i < batch->filled; ++i)
        if (batch->status[i] < 0) batch->error = -batch->status[i];
    return error;
}

/* ---- how far it is ---- */

static const uint64_t INTERVAL_NS = 100000000u;

static void tell(struct nm_progress *progress) {
    progress->said = progress->done;
    progress->said_ns = nm_clock_ns(CLOCK_MONOTONIC);
    nm_event("placing", "\"done_bytes\":%zu,\"bytes\":%zu", progress->done, progress->bytes);
}

void nm_progress_begin(struct nm_progress *progress, size_t bytes) {
    *progress = (struct nm_progress){
        .bytes = bytes, .said_ns = nm_clock_ns(CLOCK_MONOTONIC), .lock = PTHREAD_MUTEX_INITIALIZER};
}

void nm_progress_add(struct nm_progress *progress, size_t bytes) {
    pthread_mutex_lock(&progress->lock);
    progress->done += bytes;
    if (progress->done > progress->bytes) progress->done = progress->bytes;
    if (nm_clock_ns(CLOCK_MONOTONIC) >= progress->said_ns + INTERVAL_NS) tell(progress);
    pthread_mutex_unlock(&progress->lock);
}

void nm_progress_end(struct nm_progress *progress) {
    progress->done = progress->bytes;
    if (progress->said > 0 && progress->said < progress->bytes) tell(progress);
}

/* ---- threads ---- */

unsigned nm_movers(void) {
    return nm_config.copies < 1             ? 1
           : nm_config.copies > MOST_MOVERS ? MOST_MOVERS
                                            : (unsigned)nm_config.copies;
}

struct mover {
    void (*work)(void *worker);
    void *worker;
    pthread_t thread;
};

static void *run(void *argument) {
    struct mover *mover = argument;
    mover->work(mover->worker);
    return NULL;
}

void nm_move_together(void (*work)(void *worker), void *workers, size_t worker_bytes,
                      unsigned count) {
    struct mover movers[MOST_MOVERS];
    unsigned others = 0;
    sigset_t all, before; /* the engine's signals stay with the engine's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (others + 1 < count && others < MOST_MOVERS) {
        struct mover *mover = &movers[others];
        mover->work = work;
        mover->worker = (char *)workers + (others + 1) * worker_bytes;
        if (pthread_create(&mover->thread, NULL, run, mover) != 0) break;
        ++others;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(workers);
    for (unsigned i = 0; i < others; ++i) pthread_join(movers[i].thread, NULL);
}
