/*
 * One copy of the weights, its pages spread evenly over the nodes. Only weights: the rest of the
 * process, its caches and its buffers pinned for a GPU, stays under the process's own policy.
 */
#ifndef NM_INTERLEAVE_H
#define NM_INTERLEAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

/* Call when the engine marks a buffer as one of weights: pages that are not there yet will be
 * spread by the kernel as they are touched. Of a mapped file that says nothing, its pages are the
 * cache's. */
void nm_interleave_ahead(uintptr_t start, size_t bytes);

/* Call before such a buffer is freed: what the heap puts there next is no weight. */
void nm_interleave_undo(uintptr_t start, size_t bytes);

/* Spreads those weights of the table that are new and not yet spread, asks the kernel where the
 * pages are afterwards, and says it. Returns why that is not known of some weights, or "". Caller
 * holds the registry's lock. */
const char *nm_interleave(struct nm_table *table, const bool *is_new);

#endif
