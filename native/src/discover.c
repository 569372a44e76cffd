#include "discover.h"

#include <pthread.h>
#include <stdlib.h>

#include "registry.h"

/* What the engine allotted for the tensor: repacked and AMX layouts are larger or smaller than
 * its shape says. Never past the buffer's end. */
static size_t bytes_of(const struct nm_module *engine, const void *tensor,
                       const struct nm_buffer *buffer) {
    size_t bytes = nm_tensor_span(&engine->layout, tensor);
    size_t (*alloc_size)(const void *, const void *) =
        engine->real[NM_SYM_ggml_backend_buft_get_alloc_size];
    const void *(*type_of)(const void *) = engine->real[NM_SYM_ggml_backend_buffer_get_type];
    if (alloc_size != NULL) {
        size_t allotted = alloc_size(type_of(buffer->id), tensor);
        if (allotted > bytes) bytes = allotted;
    }
    size_t room = buffer->start + buffer->bytes - (uintptr_t)nm_data(&engine->layout, tensor);
    return bytes < room ? bytes : room;
}

static size_t note_weights(struct nm_candidate *list, const struct nm_module *engine, void *graph,
                           int op_code) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    size_t found = 0;
    for (int i = 0, nodes = node_count(graph); i < nodes; ++i) {
        const void *op = node_at(graph, i);
        if (nm_op(&engine->layout, op) != op_code) continue;
        const void *weight = nm_src(&engine->layout, op, 0);
        if (weight == NULL) continue;
        uintptr_t address = (uintptr_t)nm_data(&engine->layout, weight);
        const struct nm_buffer *buffer = nm_registry_buffer_at(address);
        if (buffer == NULL) continue;
        list[found++] = (struct nm_candidate){address, bytes_of(engine, weight, buffer),
                                              op_code == engine->layout.mul_mat_id};
    }
    return found;
}

struct nm_finding nm_discover(const struct nm_module *engine, void *graph) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    struct nm_finding finding = {0};
    int nodes = node_count(graph);
    finding.all = nodes > 0 ? calloc((size_t)nodes, sizeof *finding.all) : NULL;
    if (finding.all == NULL) return finding;
    pthread_mutex_lock(&nm_registry.lock);
    finding.dense_count = note_weights(finding.all, engine, graph, engine->layout.mul_mat);
    finding.experts = finding.all + finding.dense_count;
    finding.expert_count = note_weights(finding.experts, engine, graph, engine->layout.mul_mat_id);
    pthread_mutex_unlock(&nm_registry.lock);
    return finding;
}

void nm_finding_free(struct nm_finding *finding) {
    free(finding->all);
    *finding = (struct nm_finding){0};
}
