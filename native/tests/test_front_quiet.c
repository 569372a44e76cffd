/* The hot path allocates nothing: every allocation of the process is counted while ops compute. */
#include "front.h"

static int allocations;
static bool counting;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

void *malloc(size_t bytes) {
    allocations += counting;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    allocations += counting;
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
    allocations += counting;
    return __libc_realloc(old, bytes);
}

static void a_thousand_ops_allocate_nothing(void) {
    struct buffer model = new_model(8 * MIB);
    stand_in_mark_weights(&model);
    static const int ops[] = {OP_MUL_MAT, OP_MUL_MAT_ID, OP_ADD};
    static const int types[] = {TYPE_F32, TYPE_EXTRA, TYPE_TILED};
    for (int o = 0; o < 3; ++o)
        for (int t = 0; t < 3; ++t) {
            struct tensor weight = new_weight(model.base, types[t], 2 * MIB);
            struct tensor op = new_op(ops[o], &weight);
            CHECK(stand_in_compute(&op, 1, 2) == 0 && stand_in_compute(&op, 1, 2) == 0);
            counting = true;
            CHECK(stand_in_compute(&op, 1, 1000) == 0);
            counting = false;
            CHECK(allocations == 0);
        }
    free(malloc(1)); /* the count counts */
    counting = true;
    free(malloc(1));
    counting = false;
    CHECK(allocations == 1);
}

int main(void) {
    RUN(a_thousand_ops_allocate_nothing);
    return 0;
}
