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

static void note_weight(struct nm_finding *finding, const struct nm_module *engine,
                        const void *weight, bool by_expert) {
    uintptr_t address = (uintptr_t)nm_data(&engine->layout, weight);
    const struct nm_buffer *buffer = nm_registry_buffer_at(address);
    if (buffer == NULL) return;
    struct nm_candidate found = {address, bytes_of(engine, weight, buffer), by_expert};
    if (by_expert)
        finding->experts[finding->expert_count++] = found;
    else
        finding->dense[finding->dense_count++] = found;
}

struct nm_finding nm_discover(const struct nm_module *engine, void *graph) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    int count = node_count(graph);
    struct nm_finding finding = {0};
    if (count <= 0) return finding;
    finding.dense = calloc((size_t)count, sizeof *finding.dense);
    finding.experts = calloc((size_t)count, sizeof *finding.experts);
    if (finding.dense == NULL || finding.experts == NULL) {
        nm_finding_free(&finding);
        return finding;
    }
    pthread_mutex_lock(&nm_registry.lock);
    for (int i = 0; i < count; ++i) {
        const void *op = node_at(graph, i);
        int code = nm_op(&engine->layout, op);
        if (code != engine->layout.mul_mat && code != engine->layout.mul_mat_id) continue;
        const void *weight = nm_src(&engine->layout, op, 0);
        if (weight != NULL)
            note_weight(&finding, engine, weight, code == engine->layout.mul_mat_id);
    }
    pthread_mutex_unlock(&nm_registry.lock);
    return finding;
}

void nm_finding_free(struct nm_finding *finding) {
    free(finding->dense);
    free(finding->experts);
    *finding = (struct nm_finding){0};
}
