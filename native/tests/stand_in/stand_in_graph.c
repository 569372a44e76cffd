#include <pthread.h>

#include "stand_in_kernels.h"

/* A row of the one expert that the ids name. */
static void named_row(const struct params *params, struct tensor *op) {
    const int *expert = op->src[2]->data;
    float y = 0;
    if (op->src[0]->type == TYPE_TILED)
        ggml_compute_forward_mul_mat_id_tiled(params, op, *expert, 4, 5, 6, 7, 8);
    else
        stand_in_dots[0](1, &y, 3, (char *)op->src[0]->data + (size_t)*expert * op->src[0]->nb[2],
                         4, &y, 6, 7);
}

static void expert_rows(const struct params *params, struct tensor *op) {
    float y = 0;
    if (op->src[2] != NULL)
        named_row(params, op);
    else if (op->src[0]->type == TYPE_TILED)
        ggml_compute_forward_mul_mat_id_tiled(params, op, 3, 4, 5, 6, 7, 8);
    else
        for (int i = 0; i < params->rows; ++i)
            stand_in_dots[0](1, &y, 3, (char *)op->src[0]->data + 128, 4, &y, 6, 7);
}

#ifdef STAND_IN_IQK
static void compute_op(const struct params *params, struct tensor *op) {
    const struct tensor *w = op->src[0];
    float c = 0;
    long rows = (long)w->ne[1], stride = (long)w->nb[1];
    if (op->op == OP_MUL_MAT)
        iqk_mul_mat(rows, 2, 3, w->type == TYPE_F32 ? 4 : w->type, w->data, stride, 7, &c, 9, &c,
                    11, params->ith, params->nth);
    else if (op->op == OP_MUL_MAT_ID && w->type == TYPE_F32)
        iqk_mul_mat_moe(rows, 2, 3, 4, 5, w->data, stride, 8, &c, 10, &c, 12, 13, &c, params->ith,
                        params->nth);
    else if (op->op == OP_MUL_MAT_ID)
        expert_rows(params, op);
    else if (op->op == OP_UP_GATE)
        iqk_moe_fused_up_gate(rows, 2, 3, 4, 5, 6, w->data, op->src[1]->data, stride, 10, &c, 12,
                              NULL, NULL, &c, 16, 17, &c, 0.5f, params->ith, params->nth);
}
#else
#ifdef STAND_IN_OPS_INSIDE /* the call is bound inside, as by -Bsymbolic */
bool extra_inside(const struct params *params, struct tensor *op)
    __attribute__((visibility("hidden")));
#define ggml_cpu_extra_compute_forward extra_inside
#endif

static void compute_op(const struct params *params, struct tensor *op) {
    if (ggml_cpu_extra_compute_forward(params, op)) return;
    if (op->op == OP_MUL_MAT) ggml_compute_forward_mul_mat(params, op);
    if (op->op == OP_MUL_MAT_ID) expert_rows(params, op);
    if (op->op == OP_CPY) *(char *)op->data = 'c';
}
#endif

/* One thread's part of a graph. */
struct share {
    struct graph *graph;
    struct plan *plan;
    int ith;
};

static void *compute_share(void *argument) {
    const struct share *share = argument;
    const struct plan *plan = share->plan;
    struct params params = {share->ith, plan->threads, plan->rows};
    for (int i = 0; i < share->graph->nodes; ++i)
        for (int k = 0; k < plan->repeat; ++k) {
            compute_op(&params, share->graph->node[i]);
            if (plan->after_op != NULL) plan->after_op(share->ith);
        }
    return NULL;
}

/* By a pointer, as the real one starts its threads. */
static void *(*volatile compute_one)(void *) = compute_share;

int ggml_graph_compute(struct graph *graph, struct plan *plan) {
    enum { MOST = 16 };
    pthread_t threads[MOST];
    struct share shares[MOST];
    int started = plan->after_op == NULL ? 1 : plan->threads;
    for (int ith = 0; ith < started; ++ith) shares[ith] = (struct share){graph, plan, ith};
    for (int ith = 1; ith < started; ++ith)
        pthread_create(&threads[ith], NULL, compute_one, &shares[ith]);
    compute_one(&shares[0]);
    for (int ith = 1; ith < started; ++ith) pthread_join(threads[ith], NULL);
    return 0;
}
