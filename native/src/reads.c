#include "reads.h"

#include <pthread.h>
#include <stdatomic.h>

#include "registry.h"
#include "status.h"
#include "tell.h"

/* Warm-ups are one graph, with all experts; a few more for engines that warm up twice. */
enum { GRAPHS_TO_LOOK_AT = 8 };

static _Atomic int looks_left;

size_t nm_experts_used(const struct nm_layout *l, const void *op, const void *weight) {
    int64_t experts = nm_ne(l, weight, 2);
    const void *ids = nm_src(l, op, nm_op(l, op) == l->mul_mat_id ? 2 : 3);
    int64_t used = ids == NULL ? experts : nm_ne(l, ids, 0);
    if (experts < 1) return 1;
    return (size_t)(used >= 1 && used <= experts ? used : experts);
}

/* Returns whether the weight was thought to be read differently. */
static bool learn_weight(const struct nm_table *table, const struct nm_layout *l, const void *op,
                         int source) {
    const void *tensor = nm_src(l, op, source);
    if (tensor == NULL) return false;
    struct nm_weight *weight = nm_table_find(table, (uintptr_t)nm_data(l, tensor));
    if (weight == NULL || !weight->by_expert) return false;
    size_t bytes = weight->slab_bytes * nm_experts_used(l, op, tensor);
    if (bytes == weight->token_bytes) return false;
    weight->token_bytes = bytes;
    if (weight->slices != NULL) nm_slices_forget_reads(weight->slices); /* of a warm-up */
    return true;
}

static bool learn_graph(const struct nm_table *table, const struct nm_module *engine, void *graph) {
    int (*node_count)(void *) = engine->real[NM_SYM_ggml_graph_n_nodes];
    void *(*node_at)(void *, int) = engine->real[NM_SYM_ggml_graph_node];
    const struct nm_layout *l = &engine->layout;
    bool learned = false;
    for (int i = 0, nodes = node_count(graph); i < nodes; ++i) {
        const void *op = node_at(graph, i);
        int code = nm_op(l, op);
        int weights = code == l->mul_mat_id ? 1 : code == l->moe_up_gate ? 2 : 0;
        for (int k = 0; k < weights; ++k) learned = learn_weight(table, l, op, k) || learned;
    }
    return learned;
}

void nm_reads_count(const struct nm_layout *l, const void *op, const struct nm_weight *weight) {
    const char *ids = nm_src(l, op, 2);
    int64_t experts = (int64_t)weight->slices->count;
    if (ids == NULL || nm_ne(l, ids, 0) >= experts) return; /* a warm-up, which names all */
    for (int64_t token = 0; token < nm_ne(l, ids, 1); ++token)
        for (int64_t place = 0; place < nm_ne(l, ids, 0); ++place) {
            uint32_t expert = nm_expert_named(l, ids, place, token);
            if (expert < experts) nm_slices_book(weight->slices, expert, 1);
        }
}

void nm_reads_count_at(uintptr_t address, size_t tokens) {
    enum { MOST_TOKENS = 1 << 16 };
    const struct nm_table *table = atomic_load_explicit(&nm_table, memory_order_acquire);
    const struct nm_weight *weight = table == NULL ? NULL : nm_table_find(table, address);
    if (weight == NULL || weight->state != NM_WEIGHT_COUNTED || tokens > MOST_TOKENS) return;
    nm_slices_book(weight->slices, nm_slice_at(weight, address), (uint32_t)tokens);
}

void nm_reads_expect(void) { atomic_store(&looks_left, GRAPHS_TO_LOOK_AT); }

void nm_reads_learn(const struct nm_module *engine, void *graph) {
    if (atomic_load_explicit(&looks_left, memory_order_relaxed) <= 0) return;
    atomic_fetch_sub(&looks_left, 1);
    pthread_mutex_lock(&nm_registry.lock);
    const struct nm_table *table = atomic_load(&nm_table);
    if (table != NULL && learn_graph(table, engine, graph)) {
        nm_tell(table, nm_status->reason);
        nm_tell_coverage();
    }
    pthread_mutex_unlock(&nm_registry.lock);
}
