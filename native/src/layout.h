/* Where the engine keeps what we need in its structs, measured through its own public API. */
#ifndef NM_LAYOUT_H
#define NM_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NM_TENSOR_MAX = 512, NM_OPS_MAX = 256 };

struct nm_layout {
    size_t tensor_bytes;             /* sizeof(struct ggml_tensor) */
    size_t op, src0, data, ne, nb;   /* offsets */
    int up_gate, moe_up_gate;        /* ik_llama.cpp: two weights in one op; -1 elsewhere */
    int mul_mat, mul_mat_id;         /* op codes */
    bool moves_no_bytes[NM_OPS_MAX]; /* NONE and the views: their dst is not written */
};

struct nm_module;

/* Builds two tensors, a product and a sum with the module's functions and looks where the known
 * values lie. NULL on success, else what could not be found. */
const char *nm_layout_measure(struct nm_layout *layout, const struct nm_module *module);

static inline int nm_op(const struct nm_layout *l, const void *tensor) {
    return *(const int *)((const char *)tensor + l->op);
}
static inline char *nm_src(const struct nm_layout *l, const void *tensor, int index) {
    return ((char *const *)((const char *)tensor + l->src0))[index];
}
static inline void *nm_data(const struct nm_layout *l, const void *tensor) {
    return *(void *const *)((const char *)tensor + l->data);
}
static inline int64_t nm_ne(const struct nm_layout *l, const void *tensor, int dimension) {
    return ((const int64_t *)((const char *)tensor + l->ne))[dimension];
}
static inline size_t nm_nb(const struct nm_layout *l, const void *tensor, int dimension) {
    return ((const size_t *)((const char *)tensor + l->nb))[dimension];
}
/* Whether computing the op writes to its data. */
static inline bool nm_writes(const struct nm_layout *l, const void *op) {
    int code = nm_op(l, op);
    return code < 0 || code >= NM_OPS_MAX || !l->moves_no_bytes[code];
}
/* Bytes from the first element to behind the last, or more: a view's dimensions can be in any order
 * but for the first, and one of them has the longest way to go. */
static inline size_t nm_tensor_span(const struct nm_layout *l, const void *tensor) {
    size_t span = 0;
    for (int i = 1; i < 4; ++i) {
        size_t way = nm_nb(l, tensor, i) * (size_t)nm_ne(l, tensor, i);
        if (way > span) span = way;
    }
    return span;
}

#endif
