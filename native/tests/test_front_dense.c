/* An engine whose kernels cannot be reached, as in a build that hides them: its dense weights are
 * mirrored, its experts are read from the primary, and that is said. */
#include "front.h"
#include "heard.h"
#include "page.h"

static void experts_are_left_alone_and_the_build_is_named(void) {
    struct buffer model = new_model(8 * MIB);
    char *primary = model.base;
    struct tensor dense = new_weight(primary, TYPE_F32, 2 * MIB);
    struct tensor experts = new_weight(primary + 4 * MIB, TYPE_F32, 2 * MIB);
    struct tensor mul_mat = new_op(OP_MUL_MAT, &dense), by_expert = new_op(OP_MUL_MAT_ID, &experts);
    stand_in_mark_weights(&model);
    for (int i = 0; i < 3; ++i) read_at(&mul_mat);
    for (int i = 0; i < 3; ++i) read_at(&by_expert);
    CHECK(read_at(&mul_mat) != primary && read_at(&mul_mat)[0] == 'w');
    CHECK(read_at(&by_expert) == primary + 4 * MIB + 128);
    CHECK(times_said("its experts are not mirrored") == 1);
    CHECK(times_said("its calls of the ggml_vec_dot_ functions do not reach the shim (built with "
                     "LTO, -Bsymbolic or hidden symbols)") == 1);
    CHECK(times_said("use a build without these") == 1);
    struct tensor later = new_weight(primary + 6 * MIB, TYPE_F32, 2 * MIB);
    struct tensor another = new_op(OP_MUL_MAT, &later);
    for (int i = 0; i < 3; ++i) read_at(&another);
    CHECK(read_at(&another) != primary + 6 * MIB); /* which has no reason of its own */
    CHECK(strcmp(status_page()->reason,
                 "the engine reads its experts past the shim: dense weights only") == 0);
    stand_in_free(&model);
}

int main(void) {
    listen_to_the_shim();
    RUN(experts_are_left_alone_and_the_build_is_named);
    return 0;
}
