/* The system refuses a change of the program's code at any of its steps, once, or again when what
 * was done is to be undone: the engine then computes as if the shim were not there. */
#include <sys/wait.h>
#include <unistd.h>

#include "front.h"
#include "heard.h"

static const char from_variable[] = "REFUSE_FROM", to_variable[] = "REFUSE_TO";

/* Of refusing.c. */
extern int refusing_calls;

static void it_computes_and_frees_its_model(void) {
    struct buffer model = new_model(4 * MIB);
    stand_in_mark_weights(&model);
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT_ID, &weight);
    for (int i = 0; i < 3; ++i) CHECK(read_at(&op)[0] == 'w');
    stand_in_free(&model);
    CHECK(model.usage == 0);
}

static int run_refused(const char *self, int from, int to) {
    char number[2][16];
    snprintf(number[0], sizeof number[0], "%d", from);
    snprintf(number[1], sizeof number[1], "%d", to);
    setenv(from_variable, number[0], 1);
    setenv(to_variable, number[1], 1);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, "once", NULL);
        _exit(127);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static const char *self;

static void a_refusal_at_any_step_changes_nothing(void) {
    int steps = refusing_calls;
    CHECK(steps >= 7); /* thunks, a trial, code, the table of kernels */
    for (int from = 1; from <= steps; ++from)
        for (int more = 0; more < 2; ++more) CHECK(run_refused(self, from, from + more) == 0);
    CHECK(times_said("the system allows no new code (mprotect with PROT_EXEC)") > 0);
    CHECK(times_said("the system allows no change of its code (mprotect)") > 0);
}

static void so_does_a_system_that_refuses_from_some_step_on(void) {
    for (int from = 1, steps = refusing_calls; from <= steps; ++from)
        CHECK(run_refused(self, from, 1000) == 0);
}

int main(int count, char **words) {
    self = words[0];
    RUN(it_computes_and_frees_its_model);
    if (count > 1) return 0;
    listen_to_the_shim();
    RUN(a_refusal_at_any_step_changes_nothing);
    RUN(so_does_a_system_that_refuses_from_some_step_on);
    return 0;
}
