/* A program that is about to filter its own system calls is left alone from then on: a filter may
 * kill for the calls that a replica takes. */
#include <string.h>
#include <sys/prctl.h>

#include "front.h"

static void weights_that_come_later_are_read_from_the_primary(void) {
    struct buffer early = new_model(4 * MIB), late = new_model(4 * MIB);
    stand_in_mark_weights(&early);
    struct tensor mirrored = new_weight(early.base, TYPE_F32, 2 * MIB);
    struct tensor first = new_op(OP_MUL_MAT, &mirrored);
    read_at(&first); /* shows that the seams fire */
    CHECK(read_at(&first) != (char *)early.base);

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    stand_in_mark_weights(&late);
    struct tensor unmirrored = new_weight(late.base, TYPE_F32, 2 * MIB);
    struct tensor second = new_op(OP_MUL_MAT, &unmirrored);
    for (int i = 0; i < 3; ++i) CHECK(read_at(&second) == (char *)late.base);
    CHECK(read_at(&first) != (char *)early.base);
    stand_in_free(&late);
    stand_in_free(&early);
}

static void what_the_program_asks_of_prctl_is_done(void) {
    char name[16];
    CHECK(prctl(PR_SET_NAME, "renamed", 0, 0, 0) == 0);
    CHECK(prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && strcmp(name, "renamed") == 0);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(prctl(-1, 0, 0, 0, 0) == -1);
}

int main(void) {
    RUN(weights_that_come_later_are_read_from_the_primary);
    RUN(what_the_program_asks_of_prctl_is_done);
    return 0;
}
