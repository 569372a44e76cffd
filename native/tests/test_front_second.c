/* A second engine in the process, which cannot be read: it goes on by itself, and the first one's
 * weights stay mirrored and are said to be. */
#include "front.h"
#include "page.h"

static void what_is_said_of_the_first_engine_stands(void) {
    struct buffer model = new_model(4 * MIB);
    stand_in_mark_weights(&model);
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    read_at(&op);
    CHECK(read_at(&op) != (char *)model.base);

    void *second = dlopen(SECOND_ENGINE, RTLD_NOW | RTLD_LOCAL);
    CHECK(second != NULL);
    int (*compute)(struct tensor *, int, int) =
        (int (*)(struct tensor *, int, int))dlsym(second, "stand_in_compute");
    struct tensor its_own = new_weight(model.base + 2 * MIB, TYPE_F32, 2 * MIB);
    struct tensor its_op = new_op(OP_MUL_MAT, &its_own);
    CHECK(compute != NULL && compute(&its_op, 1, 1) == 0);
    CHECK(status_page()->state == NM_MIRRORED && status_page()->reason[0] == '\0');
    CHECK(read_at(&op) != (char *)model.base);
    stand_in_free(&model);
}

int main(void) {
    RUN(what_is_said_of_the_first_engine_stands);
    return 0;
}
