/* The seams inside the engine's static MUL_MAT_ID: each row, or each expert, of the weight whose
 * range the op has left in the thread. */
#include "redirect.h"
#include "seam.h"

typedef void vec_dot(int n, float *s, size_t bs, const void *row, size_t bx, const void *y,
                     size_t by, int rows);

static inline const void *moved_row(struct nm_thread *thread, const void *row) {
    if ((uintptr_t)row - thread->range_start >= thread->range_bytes) return row;
    ++thread->range_hits;
    return (const char *)row + thread->range_delta;
}

/* Same arguments out as in, so that the compiler ends each with a jump, and the usual way needs no
 * stack: the search for another engine stands apart. */
#define X(type, need)                                                                             \
    static __attribute__((noinline, cold)) void find_##type(int n, float *s, size_t bs,           \
                                                            const void *row, size_t bx,           \
                                                            const void *y, size_t by, int rows) { \
        vec_dot *real = (vec_dot *)nm_module_at(NM_CALLER())->real[NM_SYM_vec_dot_##type];        \
        real(n, s, bs, moved_row(&nm_thread, row), bx, y, by, rows);                              \
    }                                                                                             \
    NM_EXPORT vec_dot ggml_vec_dot_##type;                                                        \
    void ggml_vec_dot_##type(int n, float *s, size_t bs, const void *row, size_t bx,              \
                             const void *y, size_t by, int rows) {                                \
        struct nm_thread *thread = &nm_thread;                                                    \
        struct nm_module *engine = thread->engine;                                                \
        if (__builtin_expect(engine == NULL || !nm_module_contains(engine, NM_CALLER()), 0)) {    \
            find_##type(n, s, bs, row, bx, y, by, rows);                                          \
            return;                                                                               \
        }                                                                                         \
        vec_dot *real = (vec_dot *)engine->real[NM_SYM_vec_dot_##type];                           \
        real(n, s, bs, moved_row(thread, row), bx, y, by, rows);                                  \
    }
NM_VEC_DOTS(X)
#undef X

/* What row_seam.S goes on with: the op to hand over, and the function to jump to. */
struct row_call {
    const void *op;
    void *real;
};

static const enum nm_symbol row_symbols[] = {
#define X(name, need) NM_SYM_##name,
    NM_ROW_SEAMS(X)
#undef X
};

/* Outlives the jump to the real function. */
static __thread struct nm_shadow expert;

struct row_call nm_row_seam(int seam, const void *op, const void *caller);

struct row_call nm_row_seam(int seam, const void *op, const void *caller) {
    struct nm_thread *thread = &nm_thread;
    struct nm_module *engine = nm_caller_module(caller);
    struct row_call call = {op, engine->real[row_symbols[seam]]};
    if (thread->range_bytes == 0 || thread->engine != engine) return call;
    const void *weight = nm_src(&engine->layout, op, 0);
    if ((uintptr_t)nm_data(&engine->layout, weight) - thread->range_start >= thread->range_bytes)
        return call;
    ++thread->range_hits;
    if (thread->range_delta == 0) return call;
    nm_shadow_fill(&expert, &engine->layout, op, thread->range_delta);
    call.op = expert.op;
    return call;
}
