/* What one token reads: all of a dense weight, and of experts those that the router names. */
#ifndef NM_READS_H
#define NM_READS_H

#include <stdbool.h>
#include <stddef.h>

#include "module.h"

/* Experts that one token uses of the op's weight; all of them where the op does not tell. */
size_t nm_experts_used(const struct nm_layout *layout, const void *op, const void *weight);

/* Experts were found: graphs to come are looked at, since engines warm up with all experts. */
void nm_reads_expect(void);

/* Looks at a graph that was computed, while that is expected to teach something, and tells anew
 * when it did. */
void nm_reads_learn(const struct nm_module *engine, void *graph);

#endif
