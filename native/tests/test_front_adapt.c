/* With NUMAMIRROR_ADAPT=3 and room for two of four experts: the two that were read most get
 * replicas, and each row is read from its expert's, the others' from the primary. */
#include "front.h"

enum { EXPERTS = 4 };

static struct buffer model;
static int named;
static struct tensor ids = {.ne = {1, 1, 1, 1},
                            .nb = {sizeof named, sizeof named, sizeof named, sizeof named},
                            .data = &named};

static struct tensor new_experts(int type) {
    model = new_model(EXPERTS * MIB);
    for (int i = 0; i < EXPERTS; ++i) memset((char *)model.base + i * MIB, '0' + i, MIB);
    stand_in_mark_weights(&model);
    struct tensor t = new_weight(model.base, type, MIB);
    t.ne[2] = EXPERTS;
    t.nb[3] = EXPERTS * MIB;
    return t;
}

static const char *expert_read_at(struct tensor *op, int expert) {
    named = expert;
    const char *seen = read_at(op);
    CHECK(seen[0] == '0' + expert);
    return seen;
}

static bool in_primary(const char *address) {
    return (size_t)(address - (char *)model.base) < model.size;
}

static void count_and_copy(int type) {
    struct tensor weight = new_experts(type);
    struct tensor op = new_op(OP_MUL_MAT_ID, &weight);
    op.src[2] = &ids;
    /* Three count: the first one only where the seams have shown themselves before. */
    for (int i = 0; i < 3; ++i) CHECK(in_primary(expert_read_at(&op, i % 2 ? 1 : 3)));
    expert_read_at(&op, 1);
    CHECK(!in_primary(expert_read_at(&op, 3)) && !in_primary(expert_read_at(&op, 1)));
    CHECK(in_primary(expert_read_at(&op, 0)) && in_primary(expert_read_at(&op, 2)));
    stand_in_free(&model);
    CHECK(in_primary(expert_read_at(&op, 3)));
    munmap(model.base, model.size);
}

static void experts_that_are_read_row_by_row_are_copied_each_by_itself(void) {
    count_and_copy(TYPE_F32);
}

static void experts_that_are_called_by_number_are_copied_each_by_itself(void) {
    count_and_copy(TYPE_TILED);
}

static void nothing(int ith) { (void)ith; }

static void a_token_counts_once_however_many_threads_compute_it(void) {
    struct tensor weight = new_experts(TYPE_F32);
    struct tensor op = new_op(OP_MUL_MAT_ID, &weight);
    op.src[2] = &ids;
    named = 3;
    for (int i = 0; i < 2; ++i) CHECK(stand_in_compute_by_threads(&op, 4, 1, nothing) == 0);
    CHECK(in_primary(expert_read_at(&op, 3))); /* the third token, after which it is copied */
    CHECK(!in_primary(expert_read_at(&op, 3)));
    CHECK(stand_in_compute_by_threads(&op, 4, 1, nothing) == 0);
    stand_in_free(&model);
    munmap(model.base, model.size);
}

static void a_write_to_an_expert_reaches_its_replica(void) {
    struct tensor weight = new_experts(TYPE_F32);
    struct tensor op = new_op(OP_MUL_MAT_ID, &weight);
    op.src[2] = &ids;
    for (int i = 0; i < 4; ++i) expert_read_at(&op, 2);
    CHECK(!in_primary(expert_read_at(&op, 2)));
    char *part = new_memory(64);
    memset(part, '2', 64);
    part[0] = 'x';
    stand_in_set(&weight, part, 2 * MIB, 64);
    named = 2;
    CHECK(read_at(&op)[0] == 'x' && !in_primary(stand_in_booking()->weight));
    stand_in_free(&model);
    munmap(model.base, model.size);
}

int main(void) {
    RUN(experts_that_are_read_row_by_row_are_copied_each_by_itself);
    RUN(experts_that_are_called_by_number_are_copied_each_by_itself);
    RUN(a_token_counts_once_however_many_threads_compute_it);
    RUN(a_write_to_an_expert_reaches_its_replica);
    return 0;
}
