/* What a computing thread carries from op to op. One writer, its thread. */
#ifndef NM_THREAD_H
#define NM_THREAD_H

#include <stdint.h>

#include "layout.h"
#include "module.h"
#include "numamirror_status.h"
#include "table.h"

struct nm_thread {
    struct nm_module *engine; /* of the op that runs; NULL: none seen yet */
    /* the weight of a MUL_MAT_ID that runs: rows inside it are read `delta` bytes further on */
    uintptr_t range_start;
    uintptr_t range_bytes;
    ptrdiff_t range_delta;
    uint64_t range_hits;
    const struct nm_weight *sliced;  /* of a MUL_MAT_ID that runs: the range is one expert of it */
    const void *caller;              /* of a row seam on its unusual way */
    struct nm_module *called;        /* the last whose function was passed on to */
    struct nm_weight *sharded;       /* of the op that runs, for whom rows are fixed */
    struct nm_status_thread *counts; /* NULL until the first op */
    int pin_key, pin_copy;           /* the place in the pool that it was pinned for */
};

extern __thread struct nm_thread nm_thread;

/* This thread's counters; claims an entry of the status page at the first call. */
struct nm_status_thread *nm_thread_counts(void);

/* Adds the counts to the sums of their copy and begins anew, for another copy. */
void nm_thread_settle(struct nm_status_thread *counts, int copy);

/* Before the first thread computes: entries of threads that end are to be given back. */
void nm_thread_init(void);

/* In the child of a fork: its counts are nobody's. */
void nm_thread_leave(void);

#endif
