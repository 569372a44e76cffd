/* The seams below the op: a row, an expert's slab, or a whole weight is named by its address. In
 * the engine's static MUL_MAT_ID that lies in the range which the op has left in the thread; an
 * engine without the op seam is asked for each address. */
#include "argument_seam.h"
#include "config.h"
#include "redirect.h"
#include "seam.h"

typedef void vec_dot(int n, float *s, size_t bs, const void *row, size_t bx, const void *y,
                     size_t by, int rows);

static inline const void *moved_row(struct nm_thread *thread, const struct nm_module *engine,
                                    const void *row) {
    if ((uintptr_t)row - thread->range_start < thread->range_bytes) {
        ++thread->range_hits;
        if (__builtin_expect(nm_config.check_owners, 0)) nm_check_owner(thread, row);
        return (const char *)row + thread->range_delta;
    }
    return engine->has_op_seam ? row : nm_moved_row(engine, row);
}

/* Same arguments out as in, so that the compiler ends each with a jump, and the usual way needs no
 * stack: the search for another engine stands apart. */
#define X(type, need)                                                                             \
    static __attribute__((noinline, cold)) void find_##type(int n, float *s, size_t bs,           \
                                                            const void *row, size_t bx,           \
                                                            const void *y, size_t by, int rows) { \
        struct nm_module *engine = nm_module_at(NM_CALLER());                                     \
        vec_dot *real = (vec_dot *)engine->real[NM_SYM_vec_dot_##type];                           \
        real(n, s, bs, moved_row(&nm_thread, engine, row), bx, y, by, rows);                      \
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
        real(n, s, bs, moved_row(thread, engine, row), bx, y, by, rows);                          \
    }
NM_VEC_DOTS(X)
#undef X

/* The columns of NM_ARGUMENT_SEAMS. */
struct arguments {
    enum nm_symbol symbol;
    int op, weight, second, row_bytes, threads;
};

static const struct arguments argument_seams[] = {
#define X(name, need, ...) {NM_SYM_##name, __VA_ARGS__},
    NM_ARGUMENT_SEAMS(X)
#undef X
};

/* Outlives the jump to the real function. */
static __thread struct nm_shadow expert;

/* An expert of a MUL_MAT_ID whose range this thread holds. */
static void move_op(struct nm_thread *thread, const struct nm_module *engine, uintptr_t *op) {
    if (thread->range_bytes == 0 || thread->engine != engine) return;
    const void *weight = nm_src(&engine->layout, (const void *)*op, 0);
    if ((uintptr_t)nm_data(&engine->layout, weight) - thread->range_start >= thread->range_bytes)
        return;
    ++thread->range_hits;
    if (thread->range_delta == 0) return;
    nm_shadow_fill(&expert, &engine->layout, (const void *)*op, thread->range_delta);
    *op = (uintptr_t)expert.op;
}

static void move_weight(struct nm_thread *thread, struct nm_module *engine, uintptr_t *frame,
                        const struct arguments *at, int argument) {
    uintptr_t *weight = nm_argument(frame, argument);
    size_t rows = *nm_argument(frame, 1), row_bytes = *nm_argument(frame, at->row_bytes);
    int threads = (int)*nm_argument(frame, at->threads);
    *weight += (uintptr_t)nm_choose_at(thread, engine, *weight, rows * row_bytes, threads);
}

/* Called by argument_seam.S. Returns the function to jump to. */
void *nm_argument_seam(int seam, uintptr_t *frame, const void *caller);

void *nm_argument_seam(int seam, uintptr_t *frame, const void *caller) {
    const struct arguments *at = &argument_seams[seam];
    struct nm_thread *thread = &nm_thread;
    struct nm_module *engine = nm_caller_module(caller);
    if (atomic_load_explicit(&engine->state, memory_order_acquire) == NM_ENGINE_READY) {
        if (at->op != 0) move_op(thread, engine, nm_argument(frame, at->op));
        if (at->weight != 0) move_weight(thread, engine, frame, at, at->weight);
        if (at->second != 0) move_weight(thread, engine, frame, at, at->second);
    }
    return engine->real[at->symbol];
}
