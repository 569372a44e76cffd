/* Finds the weights that a graph's GEMM reads on the CPU. */
#ifndef NM_DISCOVER_H
#define NM_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>

#include "candidates.h"
#include "module.h"
#include "registry.h"

struct nm_finding {
    struct nm_candidate *all;     /* the dense ones, then the experts */
    struct nm_candidate *experts; /* of MUL_MAT_ID */
    size_t dense_count, expert_count;
};

/* The tensor, which lies in the buffer, as a weight; whether by expert only an op can tell. */
struct nm_candidate nm_candidate_of(const struct nm_module *engine, const struct nm_layout *layout,
                                    const void *tensor, const struct nm_buffer *buffer);

/* Whether the graph computes one token: its first product with a weight has one column. */
bool nm_is_decode(const struct nm_module *engine, void *graph);

/* Bytes of weights that the graph's products read. */
size_t nm_graph_bytes(const struct nm_module *engine, void *graph);

/* Walks the graph, if there is memory of the engine whose purpose it may show (scratch.h). */
void nm_look_for_caches(const struct nm_module *engine, void *graph);

/* Walks the graph; free the result with nm_finding_free. Empty when memory is short. */
struct nm_finding nm_discover(const struct nm_module *engine, void *graph);
void nm_finding_free(struct nm_finding *finding);

#endif
