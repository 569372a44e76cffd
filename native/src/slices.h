/* Experts of one weight, each for itself: how often it was read, and where its copies lie. */
#ifndef NM_SLICES_H
#define NM_SLICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nm_slices {
    unsigned users; /* tables that hold it; under the registry's lock */
    size_t count;   /* experts */
    int copies;
    bool *wanted;            /* per expert: to be mirrored or, after a build, mirrored */
    _Atomic uint32_t *reads; /* per expert: tokens that named it */
    ptrdiff_t *delta;        /* per expert and copy, as nm_weight.delta */
};

/* With one user; `reads` are those of `from` unless that is NULL. NULL when memory is short. */
struct nm_slices *nm_slices_new(size_t count, int copies, const struct nm_slices *from);

/* One user less; the last one frees it. NULL is nobody. */
void nm_slices_leave(struct nm_slices *slices);

/* Sum of `reads`: for each token, the experts that it used. */
uint64_t nm_slices_reads(const struct nm_slices *slices);
void nm_slices_forget_reads(struct nm_slices *slices);

/* A token more named the expert. Two graphs at once may lose one: no read-modify-write. */
static inline void nm_slices_book(struct nm_slices *slices, size_t expert, uint32_t tokens) {
    uint32_t before = atomic_load_explicit(&slices->reads[expert], memory_order_relaxed);
    atomic_store_explicit(&slices->reads[expert], before + tokens, memory_order_relaxed);
}

static inline ptrdiff_t *nm_slice_delta(const struct nm_slices *slices, size_t expert, int copy) {
    return &slices->delta[expert * (size_t)slices->copies + (size_t)copy];
}

#endif
