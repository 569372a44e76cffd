#include "discover.h"

#include <pthread.h>
#include <stdlib.h>

#include "config.h"
#include "groups.h"
#include "reads.h"
#include "redirect.h"
#include "registry.h"
#include "scratch.h"

/* What the engine allotted for the tensor: repacked and AMX layouts are larger or smaller than
 * its shape says. Never past the buffer's end. */
static size_t bytes_of(const struct nm_module *engine, const struct nm_layout *layout,
                       const void *tensor, const struct nm_buffer *buffer) {
    size_t bytes = nm_tensor_span(layout, tensor);
    size_t (*alloc_size)(const void *, const void *) =
        engine->real[NM_SYM_ggml_backend_buft_get_alloc_size];
    const void *(*type_of)(const void *) = engine->real[NM_SYM_ggml_backend_buffer_get_type];
    if (alloc_size != NULL) {
        size_t allotted = alloc_size(type_of(buffer->id), tensor);
        if (allotted > bytes) bytes = allotted;
    }
    size_t room = buffer->start + buffer->bytes - (uintptr_t)nm_data(layout, tensor);
    return bytes < room ? bytes : room;
}

static int group_of(const struct nm_module *engine, const void *tensor) {
    const char *(*name_of)(const void *) = engine->real[NM_SYM_ggml_get_name];
    return nm_config.observe && name_of != NULL ? nm_group_of(name_of(tensor)) : NM_NO_GROUP;
}

struct nm_candidate nm_candidate_of(const struct nm_module *engine, const struct nm_layout *layout,
                                    const void *tensor, const struct nm_buffer *buffer) {
    size_t bytes = bytes_of(engine, layout, tensor, buffer),
           slabs = (size_t)(nm_ne(layout, tensor, 2) * nm_ne(layout, tensor, 3));
    return (struct nm_candidate){.start = (uintptr_t)nm_data(layout, tensor),
                                 .bytes = bytes,
                                 .slab_bytes = bytes / (slabs > 0 ? slabs : 1),
                                 .rows = nm_ne(layout, tensor, 1),
                                 .token_bytes = bytes,
                                 .group = group_of(engine, tensor)};
}

static bool is_weight(const struct nm_module *engine, const void *op, int source, bool by_expert,
                      struct nm_candidate *found) {
    const void *tensor = nm_src(&engine->layout, op, source);
    if (tensor == NULL) return false;
    uintptr_t address = (uintptr_t)nm_data(&engine->layout, tensor);
    const struct nm_buffer *buffer = nm_registry_buffer_at(address);
    if (buffer == NULL) return false;
    *found = nm_candidate_of(engine, &engine->layout, tensor, buffer);
    found->by_expert = by_expert;
    const struct nm_layout *l = &engine->layout;
    found->sliceable = by_expert && buffer->host && nm_ne(l, tensor, 3) == 1 &&
                       nm_nb(l, tensor, 2) == found->slab_bytes &&
                       found->bytes == found->slab_bytes * (size_t)nm_ne(l, tensor, 2);
    if (by_expert)
        found->token_bytes = found->slab_bytes * nm_experts_used(&engine->layout, op, tensor);
    return true;
}

/* An op has one weight, src[0]; the fused ones of ik_llama.cpp have a second one in src[1]. */
static size_t note_weights(struct nm_candidate *list, const struct nm_module *engine, void *graph,
                           bool by_expert) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    const struct nm_layout *l = &engine->layout;
    int single = by_expert ? l->mul_mat_id : l->mul_mat;
    int fused = by_expert ? l->moe_up_gate : l->up_gate;
    size_t found = 0;
    for (int i = 0, nodes = node_count(graph); i < nodes; ++i) {
        const void *op = node_at(graph, i);
        int code = nm_op(l, op), weights = code == single ? 1 : code == fused ? 2 : 0;
        for (int k = 0; k < weights; ++k)
            found += is_weight(engine, op, k, by_expert, &list[found]);
    }
    return found;
}

/* Caches and scratch memory show themselves: an op writes to them. A weight is only ever set. */
static void forget_written_buffers(const struct nm_module *engine, void *graph, int nodes) {
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    for (int i = 0; i < nodes; ++i) {
        const void *op = node_at(graph, i);
        if (!nm_writes(&engine->layout, op)) continue;
        const void *buffer = nm_registry_doubtful_at((uintptr_t)nm_data(&engine->layout, op));
        if (buffer != NULL) nm_registry_drop_buffer(buffer);
    }
}

struct nm_finding nm_discover(const struct nm_module *engine, void *graph) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    struct nm_finding finding = {0};
    int nodes = node_count(graph);
    finding.all = nodes > 0 ? calloc(2 * (size_t)nodes, sizeof *finding.all) : NULL;
    if (finding.all == NULL) return finding;
    forget_written_buffers(engine, graph, nodes);
    pthread_mutex_lock(&nm_registry.lock);
    finding.dense_count = note_weights(finding.all, engine, graph, false);
    finding.experts = finding.all + finding.dense_count;
    finding.expert_count = note_weights(finding.experts, engine, graph, true);
    pthread_mutex_unlock(&nm_registry.lock);
    return finding;
}

void nm_look_for_caches(const struct nm_module *engine, void *graph) {
    int looks = atomic_load_explicit(&nm_scratch_looks, memory_order_relaxed);
    if (looks <= 0) return;
    atomic_store_explicit(&nm_scratch_looks, looks - 1, memory_order_relaxed);
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    for (int i = 0, nodes = node_count(graph); i < nodes; ++i) {
        const void *op = node_at(graph, i);
        if (nm_writes(&engine->layout, op))
            nm_scratch_written((uintptr_t)nm_data(&engine->layout, op));
    }
}

bool nm_is_decode(const struct nm_module *engine, void *graph) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    const struct nm_layout *l = &engine->layout;
    for (int i = 0, nodes = node_count(graph); i < nodes; ++i) {
        const void *op = node_at(graph, i);
        if (nm_op(l, op) != l->mul_mat || nm_src(l, op, 0) == NULL) continue;
        if (nm_is_weight(nm_data(l, nm_src(l, op, 0)))) return nm_ne(l, nm_src(l, op, 1), 1) == 1;
    }
    return false;
}

size_t nm_graph_bytes(const struct nm_module *engine, void *graph) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    const struct nm_layout *l = &engine->layout;
    size_t bytes = 0;
    for (int i = 0, nodes = node_count(graph); i < nodes; ++i) {
        const void *op = node_at(graph, i);
        bool by_expert = nm_op(l, op) == l->mul_mat_id;
        if (!by_expert && nm_op(l, op) != l->mul_mat) continue;
        const void *weight = nm_src(l, op, 0);
        if (weight != NULL && nm_is_weight(nm_data(l, weight)))
            bytes += nm_op_bytes(l, op, weight, by_expert);
    }
    return bytes;
}

void nm_finding_free(struct nm_finding *finding) {
    free(finding->all);
    *finding = (struct nm_finding){0};
}
