/* The seams of ik_llama.cpp on a stand-in: weights are named by their address alone. */
#include "front.h"

static struct buffer model;

static void dense_and_expert_weights_are_given_by_replica(void) {
    model = new_model(8 * MIB);
    stand_in_mark_weights(&model);
    static const int ops[] = {OP_MUL_MAT, OP_MUL_MAT_ID};
    for (size_t i = 0; i < 2; ++i) {
        char *primary = (char *)model.base + i * 2 * MIB;
        struct tensor weight = new_weight(primary, TYPE_F32, 2 * MIB);
        struct tensor op = new_op(ops[i], &weight);
        read_at(&op);
        const char *seen = read_at(&op);
        CHECK(seen != primary && seen[0] == 'w');
    }
}

static void both_weights_of_a_fused_op_are_given_by_replica(void) {
    struct tensor up = new_weight((char *)model.base + 4 * MIB, TYPE_F32, MIB);
    struct tensor gate = new_weight((char *)model.base + 5 * MIB, TYPE_F32, MIB);
    struct tensor op = new_op(OP_UP_GATE, &up);
    op.src[1] = &gate;
    read_at(&op);
    CHECK(read_at(&op) != (char *)up.data);
    CHECK(stand_in_booking()->second != gate.data &&
          *(const char *)stand_in_booking()->second == 'w');
}

static void a_row_is_found_without_its_op(void) {
    char *primary = (char *)model.base + 6 * MIB;
    struct tensor weight = new_weight(primary, TYPE_EXTRA, 2 * MIB); /* takes the vec_dot path */
    struct tensor op = new_op(OP_MUL_MAT_ID, &weight);
    read_at(&op);
    const char *seen = read_at(&op);
    CHECK(seen != primary + 128 && seen[0] == 'w');
    stand_in_free(&model);
    CHECK(read_at(&op) == primary + 128);
}

/* Its rows are of three columns. */
static void what_the_kernel_turns_away_is_read_from_the_primary(void) {
    struct buffer other = new_model(2 * MIB);
    stand_in_mark_weights(&other);
    static const int types[] = {TYPE_F16, TYPE_BF16};
    for (size_t i = 0; i < 2; ++i) {
        struct tensor weight = new_weight((char *)other.base, types[i], 2 * MIB);
        struct tensor op = new_op(OP_MUL_MAT, &weight);
        for (int k = 0; k < 3; ++k) CHECK(read_at(&op) == (char *)other.base);
    }
    stand_in_free(&other);
}

int main(void) {
    RUN(dense_and_expert_weights_are_given_by_replica);
    RUN(both_weights_of_a_fused_op_are_given_by_replica);
    RUN(a_row_is_found_without_its_op);
    RUN(what_the_kernel_turns_away_is_read_from_the_primary);
    return 0;
}
