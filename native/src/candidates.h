/* Weights as graphs show them: sorted, merged, and told apart from those already known. */
#ifndef NM_CANDIDATES_H
#define NM_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

struct nm_candidate {
    uintptr_t start;
    size_t bytes;
    bool by_expert, sliceable;
    size_t slab_bytes; /* a matrix: the whole, or one expert's */
    int64_t rows;      /* of a slab */
    size_t
        token_bytes; /* read for one token: by an op over the whole, or of the experts it names */
    int group;       /* of tensors, see groups.h */
};

static inline uintptr_t nm_candidate_end(const struct nm_candidate *c) {
    return c->start + c->bytes;
}

/* Sorts the list and reduces it, in place, to disjoint weights that `table` (or NULL) does not
 * know whole. Views of one tensor become one weight; a candidate that only overlaps a known weight
 * grows over it. Returns the new count. */
size_t nm_candidates_reduce(struct nm_candidate *list, size_t count, const struct nm_table *table);

#endif
