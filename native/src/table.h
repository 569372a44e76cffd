/*
 * The lookup table: from an address inside a weight to where each copy of it lies. Built once,
 * never changed after it is published except for `dead` marks; readers take no lock.
 */
#ifndef NM_TABLE_H
#define NM_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slices.h"

enum nm_weight_state {
    NM_WEIGHT_REFUSED,     /* not mirrored: no room, no seams, or pages that landed elsewhere */
    NM_WEIGHT_SMALL,       /* not mirrored: below the minimum size */
    NM_WEIGHT_MIRRORED,    /* every copy serves it: a replica, or the primary on its own node */
    NM_WEIGHT_COUNTED,     /* experts that are copied when it is known which are read most */
    NM_WEIGHT_SLICED,      /* of its experts some are mirrored: `slices` */
    NM_WEIGHT_SHARDED,     /* one copy, each row on the node of the thread that reads it */
    NM_WEIGHT_OBSERVED,    /* as the engine has it; where its pages are is known */
    NM_WEIGHT_INTERLEAVED, /* one copy over all nodes; where its pages are is known */
};

/* One weight: a contiguous range of bytes that CPU GEMM reads. */
struct nm_weight {
    uintptr_t start;
    size_t bytes;
    _Atomic enum nm_weight_state state;
    size_t slab_bytes;  /* a matrix: the whole, or one expert's */
    int64_t rows;       /* of a slab */
    size_t token_bytes; /* read for one token; under the registry's lock */
    /* per copy: of 256 pages that its threads read, those on its node; not of mirrored weights */
    _Atomic uint16_t *local_256;
    int group;      /* of tensors, see groups.h */
    bool by_expert; /* src0 of MUL_MAT_ID */
    bool sliceable; /* each expert is named by its own address: no engine's own layout */
    bool host;      /* laid out as the engine's API says: a partial write touches only its part */
    _Atomic bool stolen;      /* sharded: threads took chunks of it in no fixed order */
    _Atomic bool dead;        /* an op wrote to it: only the primary is right */
    struct nm_slices *slices; /* NULL: read and mirrored as a whole */
    ptrdiff_t *delta;         /* per copy: replica address - primary address; 0: read the primary */
};

struct nm_address_range {
    uintptr_t start, end;
};

struct nm_table {
    size_t count, room; /* weights there are, and at most */
    int copies;
    uintptr_t low, high; /* of all weights */
    uintptr_t *starts;   /* ascending; apart from the weights, for the cache's sake */
    struct nm_weight *weights;
    size_t range_count; /* buffers known when it was published: a miss inside one is news */
    struct nm_address_range *ranges;
    uint64_t serial; /* of those published, counted from 1 */
    struct nm_table *next_retired;
    _Atomic uint16_t *local;
    ptrdiff_t deltas[];
};

/* A table with room for that many weights and buffers, all zero; NULL when memory is short. */
struct nm_table *nm_table_new(size_t count, size_t range_count, int copies);
void nm_table_free(struct nm_table *table);

/* Makes weights[index] a copy of a weight of another table with as many copies. */
void nm_table_copy_weight(struct nm_table *table, size_t index, const struct nm_weight *from);

/* Fills the search keys; weights must be ascending and disjoint. */
void nm_table_seal(struct nm_table *table);

/* The weight that contains the address, or NULL. */
static inline struct nm_weight *nm_table_find(const struct nm_table *table, uintptr_t address) {
    if (address < table->low || address >= table->high) return NULL;
    const uintptr_t *base = table->starts;
    size_t count = table->count;
    while (count > 1) { /* the last start that is <= address, without a branch to mispredict */
        size_t half = count / 2;
        base = base[half] <= address ? base + half : base;
        count -= half;
    }
    struct nm_weight *weight = &table->weights[base - table->starts];
    return address - weight->start < weight->bytes ? weight : NULL;
}

/* The expert that the address inside a weight with slices belongs to. */
static inline size_t nm_slice_at(const struct nm_weight *weight, uintptr_t address) {
    size_t expert = (address - weight->start) / weight->slab_bytes;
    return expert < weight->slices->count ? expert : weight->slices->count - 1;
}

/* Index of the first weight that ends after the address; table->count when there is none. */
size_t nm_table_first_after(const struct nm_table *table, uintptr_t address);

/* True when the address lies in a buffer of weights (`ranges`, ascending). */
bool nm_table_in_buffer(const struct nm_table *table, uintptr_t address);

#endif
