/* What one token reads: all of a dense weight, and of experts those that the router names. */
#ifndef NM_READS_H
#define NM_READS_H

#include <stdbool.h>
#include <stddef.h>

#include "module.h"
#include "table.h"

/* Experts that one token uses of the op's weight; all of them where the op does not tell. */
size_t nm_experts_used(const struct nm_layout *layout, const void *op, const void *weight);

/* The expert that the op's `ids` name for a token, at one of the places it uses. */
static inline uint32_t nm_expert_named(const struct nm_layout *l, const char *ids, int64_t place,
                                       int64_t token) {
    return *(const uint32_t *)((const char *)nm_data(l, ids) + (size_t)place * nm_nb(l, ids, 0) +
                               (size_t)token * nm_nb(l, ids, 1));
}

/* Books the experts that a MUL_MAT_ID names, for --adapt: by one thread of the op. */
void nm_reads_count(const struct nm_layout *layout, const void *op, const struct nm_weight *weight);

/* The same where an engine names one expert, for so many tokens, by its address. */
void nm_reads_count_at(uintptr_t address, size_t tokens);

/* Experts were found: graphs to come are looked at, since engines warm up with all experts. */
void nm_reads_expect(void);

/* Looks at a graph before it is computed, while that is expected to teach something, and tells
 * anew when it did. What was counted under the wrong number of experts is forgotten. */
void nm_reads_learn(const struct nm_module *engine, void *graph);

#endif
