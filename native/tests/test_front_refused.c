/* Engines that cannot be mirrored are left exactly alone: built with -Bsymbolic, so that their ops
 * pass no seam, or of a layout that cannot be read. So are, under shard, those whose rows are
 * divided out of reach. The status page has the reason, and a line of CMakeLists.txt what is said.
 */
#include "front.h"
#include "page.h"

static void its_kernels_go_on_reading_the_primary(void) {
    struct buffer model = new_model(4 * MIB);
    stand_in_mark_weights(&model);
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    for (int i = 0; i < 3; ++i) CHECK(read_at(&op) == (char *)model.base);
    int (*extents)(void (*)(void *, const void *, size_t), void *) =
        (int (*)(void (*)(void *, const void *, size_t), void *))dlsym(RTLD_DEFAULT,
                                                                       "numamirror_test_extents");
    CHECK(extents != NULL && extents(NULL, NULL) == 0);
    if (status_page() != NULL) printf("reason: %s\n", status_page()->reason);
    stand_in_free(&model);
}

int main(void) {
    RUN(its_kernels_go_on_reading_the_primary);
    return 0;
}
