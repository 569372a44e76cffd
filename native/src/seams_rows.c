/* The seams below the op: a row, an expert's slab, or a whole weight is named by its address. In
 * the engine's static MUL_MAT_ID that lies in the range which the op has left in the thread; an
 * engine without the op seam is asked for each address. */
#include "adapt.h"
#include "argument_seam.h"
#include "config.h"
#include "reads.h"
#include "redirect.h"
#include "seam.h"

/* What follows the six arguments in registers. On x86-64 the last two lie on the stack, where gcc
 * would load them, save the registers that it needs for that, and store them again, although they
 * are where they must be. A struct that is too large for registers stays where it is. */
#if defined(__x86_64__)
struct on_stack {
    size_t by;
    int rows;
    char beyond[8]; /* the caller's own, never looked at */
};
#define MORE struct on_stack more
#define SAME_MORE more
#else
#define MORE size_t by, int rows
#define SAME_MORE by, rows
#endif

typedef void vec_dot(int n, float *s, size_t bs, const void *row, size_t bx, const void *y, MORE);

static inline bool in_range(const struct nm_thread *thread, const void *row) {
    return (uintptr_t)row - thread->range_start < thread->range_bytes;
}

/* A row of another expert, of a weight whose experts lie apart. */
static bool leaves_slice(const struct nm_thread *thread, const void *row) {
    return thread->sliced != NULL && !in_range(thread, row) &&
           (uintptr_t)row - thread->sliced->start < thread->sliced->bytes;
}

/* Rows of the op that runs, and of no weight at all: the ways that need no search. */
static inline bool is_usual(const struct nm_module *engine, const void *caller) {
    return engine != NULL && nm_module_contains(engine, caller) && engine->has_op_seam &&
           !nm_config.check_owners;
}

static const void *moved_row(struct nm_thread *thread, const struct nm_module *engine,
                             const void *row) {
    if (leaves_slice(thread, row)) nm_next_slice(thread, (uintptr_t)row);
    if (!in_range(thread, row)) return engine->has_op_seam ? row : nm_moved_row(engine, row);
    ++thread->range_hits;
    if (nm_config.check_owners) nm_check_owner(thread, row);
    return (const char *)row + thread->range_delta;
}

/* Same arguments out as in, so that the compiler ends each with a jump; a call on the usual way
 * would have it save registers for all ways: what needs one stands apart, and finds its caller
 * in the thread. */
#define X(type, need, ...)                                                             \
    static __attribute__((noinline, cold)) void unusual_##type(                        \
        int n, float *s, size_t bs, const void *row, size_t bx, const void *y, MORE) { \
        struct nm_module *engine = nm_caller_module(nm_thread.caller);                 \
        vec_dot *real = (vec_dot *)engine->real[NM_SYM_vec_dot_##type];                \
        real(n, s, bs, moved_row(&nm_thread, engine, row), bx, y, SAME_MORE);          \
    }                                                                                  \
    NM_EXPORT vec_dot ggml_vec_dot_##type;                                             \
    void ggml_vec_dot_##type(int n, float *s, size_t bs, const void *row, size_t bx,   \
                             const void *y, MORE) {                                    \
        struct nm_thread *thread = &nm_thread;                                         \
        if (__builtin_expect(!is_usual(thread->engine, NM_CALLER()), 0)) goto unusual; \
        if (in_range(thread, row)) {                                                   \
            ++thread->range_hits;                                                      \
            row = (const char *)row + thread->range_delta;                             \
        } else if (__builtin_expect(thread->sliced != NULL, 0)) {                      \
            goto unusual;                                                              \
        }                                                                              \
        vec_dot *real = (vec_dot *)thread->engine->real[NM_SYM_vec_dot_##type];        \
        real(n, s, bs, row, bx, y, SAME_MORE);                                         \
        return;                                                                        \
    unusual:                                                                           \
        thread->caller = NM_CALLER();                                                  \
        unusual_##type(n, s, bs, row, bx, y, SAME_MORE);                               \
    }
NM_VEC_DOTS(X)
#undef X

/* The columns of NM_ARGUMENT_SEAMS. */
struct arguments {
    enum nm_symbol symbol;
    int op, weight, second, row_bytes, threads;
};

static const struct arguments argument_seams[] = {
#define X(name, need, since, ...) {NM_SYM_##name, __VA_ARGS__},
    NM_ARGUMENT_SEAMS(X)
#undef X
};

/* Outlives the jump to the real function. */
static __thread struct nm_shadow expert;

/* The op's weight has slices: the range is set to the expert, whose number is the argument behind
 * the op. A version that is called once for all experts has a pointer there: the primary is right.
 */
static bool open_expert(struct nm_thread *thread, const struct nm_module *engine, const void *op,
                        uintptr_t number) {
    const struct nm_weight *weight = thread->sliced;
    uintptr_t data = (uintptr_t)nm_data(&engine->layout, nm_src(&engine->layout, op, 0));
    if (data != weight->start || number >= weight->slices->count) return false;
    nm_next_slice(thread, weight->start + number * weight->slab_bytes);
    return true;
}

/* An expert of a MUL_MAT_ID whose range this thread holds. */
static void move_op(struct nm_thread *thread, const struct nm_module *engine, uintptr_t *op,
                    uintptr_t number) {
    if (thread->range_bytes == 0 || thread->engine != engine) return;
    if (thread->sliced != NULL) {
        if (!open_expert(thread, engine, (const void *)*op, number)) return;
    } else {
        const void *weight = nm_src(&engine->layout, (const void *)*op, 0);
        uintptr_t data = (uintptr_t)nm_data(&engine->layout, weight);
        if (data - thread->range_start >= thread->range_bytes) return;
    }
    ++thread->range_hits;
    if (thread->range_delta == 0) return;
    nm_shadow_fill(&expert, &engine->layout, (const void *)*op, thread->range_delta);
    *op = (uintptr_t)expert.op;
}

/* Rows of these types whose length is no multiple of what the kernel takes at a step are turned
 * away by it, and read by a function that is private to its file: from where the op says. The
 * numbers are the same in all versions. */
static bool is_turned_away(uintptr_t *frame, const struct arguments *at) {
    enum { F32 = 0, F16 = 1, BF16 = 30, COLUMNS = 3 };
    int type = (int)*nm_argument(frame, at->weight - 1);
    uintptr_t columns = *nm_argument(frame, COLUMNS);
    switch (type) {
        case F32:
        case F16:
            return columns % 4 != 0;
        case BF16:
            return columns % 8 != 0;
        default:
            return false;
    }
}

static void move_weight(struct nm_thread *thread, struct nm_module *engine, uintptr_t *frame,
                        const struct arguments *at, int argument) {
    uintptr_t *weight = nm_argument(frame, argument);
    size_t rows = *nm_argument(frame, 1), row_bytes = *nm_argument(frame, at->row_bytes);
    int threads = (int)*nm_argument(frame, at->threads),
        ith = (int)*nm_argument(frame, at->threads - 1);
    if (atomic_load_explicit(&nm_counting, memory_order_relaxed) && ith == 0)
        nm_reads_count_at(*weight, (uint32_t)*nm_argument(frame, 2));
    *weight += (uintptr_t)nm_choose_at(thread, engine, *weight, rows * row_bytes, threads,
                                       !is_turned_away(frame, at));
}

/* Called by argument_seam.S. Returns the function to jump to. */
void *nm_argument_seam(int seam, uintptr_t *frame, const void *caller);

void *nm_argument_seam(int seam, uintptr_t *frame, const void *caller) {
    const struct arguments *at = &argument_seams[seam];
    struct nm_thread *thread = &nm_thread;
    struct nm_module *engine = nm_caller_module(caller);
    if (atomic_load_explicit(&engine->state, memory_order_acquire) == NM_ENGINE_READY) {
        if (at->op != 0)
            move_op(thread, engine, nm_argument(frame, at->op), *nm_argument(frame, at->op + 1));
        if (at->weight != 0) move_weight(thread, engine, frame, at, at->weight);
        if (at->second != 0) move_weight(thread, engine, frame, at, at->second);
    }
    return engine->real[at->symbol];
}
