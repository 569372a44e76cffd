/* Shard with its second copy on a node and a CPU that this machine does not have: the engine
 * computes as ever, and what could not be done is said. */
#include "front.h"
#include "heard.h"

static void nothing(int ith) { (void)ith; }

static void threads_and_pages_that_stay_are_said(void) {
    struct buffer model = new_model(4 * MIB);
    struct tensor weight = new_weight(model.base, TYPE_F32, 4 * MIB);
    struct tensor token = {.ne = {256, 1, 1, 1}};
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    op.src[1] = &token;
    stand_in_mark_weights(&model);
    CHECK(stand_in_compute_by_threads(&op, 2, 1, nothing) == 0);
    CHECK(times_said("threads are not bound to nodes, and read from anywhere") == 1);
    CHECK(times_said("sched_setaffinity: ") == 1);
    CHECK(times_said("pages stay that belong to another node") == 1);
    for (size_t i = 0; i < model.size; ++i) CHECK(((char *)model.base)[i] == 'w');
    stand_in_free(&model);
}

int main(void) {
    listen_to_the_shim();
    RUN(threads_and_pages_that_stay_are_said);
    return 0;
}
