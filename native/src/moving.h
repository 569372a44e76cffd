/* Moving pages to nodes, in batches: several threads take turns, and a bar shows how far they are.
 */
#ifndef NM_MOVING_H
#define NM_MOVING_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { NM_MOVE_BATCH = 16384 };

/* One thread's memory for a call of move_pages. */
struct nm_batch {
    void *pages[NM_MOVE_BATCH];
    int nodes[NM_MOVE_BATCH], status[NM_MOVE_BATCH]; /* to move to; found on, or -errno */
    size_t filled;
    int error; /* of the call, or of a page that stayed, whichever came last; 0: all went */
};

/* Adds a page of which `address` is a byte that is the process's own. It is read, so that the page
 * has a place. The batch must have room. */
void nm_batch_add(struct nm_batch *batch, uintptr_t page, uintptr_t address, int node);

/* Moves the pages of the batch, which stays filled. 0, or the errno of the call. */
int nm_batch_move(struct nm_batch *batch);

/* How far long work is, from any of its threads. */
struct nm_progress {
    size_t done, bytes; /* of weights, or of the pages that hold them */
    uint64_t said_ns;   /* or when it began */
    size_t said;
    pthread_mutex_t lock;
};
void nm_progress_begin(struct nm_progress *progress, size_t bytes);

/* Tells ten times a second; of what takes less than that, nothing. */
void nm_progress_add(struct nm_progress *progress, size_t bytes);

/* Ends the bar, also of work that was given up. */
void nm_progress_end(struct nm_progress *progress);

/* Threads that are worth having: one for each copy, within bounds. */
unsigned nm_movers(void);

/* Runs work(worker) in so many threads, this one among them, and waits. Where no thread can be had,
 * this one does it all: the workers share what there is to do. */
void nm_move_together(void (*work)(void *worker), void *workers, size_t worker_bytes,
                      unsigned count);

#endif
