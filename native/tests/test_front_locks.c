/* The shim's locks meet those of others: the loader's, and its own at a fork. A process that waits
 * for itself would never end; the alarm does. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "front.h"

typedef void visitor(void *context, const void *start, size_t bytes);
int numamirror_test_extents(visitor *visit, void *context);

/* ---- a library that calls the engine from its constructor, as calls_when_loaded.c ---- */

static pthread_t another;

static void *mark(void *argument) {
    struct buffer empty = {.host = true};
    stand_in_mark_weights(&empty);
    return argument;
}

/* Called with the loader's lock held: the thread that starts comes from a module that the shim has
 * not seen, and has to ask the loader for it. */
__attribute__((visibility("default"))) void while_loading(void);
void while_loading(void) {
    CHECK(pthread_create(&another, NULL, mark, NULL) == 0);
    usleep(100000);
}

static void a_library_may_call_the_engine_while_it_is_loaded(void) {
    CHECK(dlopen(CALLS_WHEN_LOADED, RTLD_NOW) != NULL);
    CHECK(pthread_join(another, NULL) == 0);
}

/* ---- forks ---- */

static struct buffer model;
static int children;

/* Frees the model and ends: neither waits for a lock of the parent's. */
static void fork_here(void *context, const void *start, size_t bytes) {
    (void)context, (void)start, (void)bytes;
    pid_t child = fork();
    if (child == 0) {
        stand_in_free(&model);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ++children;
}

static void load(void) {
    model = new_model(4 * MIB);
    stand_in_mark_weights(&model);
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    read_at(&op);
    CHECK(read_at(&op) != (char *)model.base);
}

static void a_forked_child_frees_the_model(void) {
    load();
    fork_here(NULL, NULL, 0);
}

/* As an engine does that aborts in a function which the shim has called: it starts a debugger. */
static void a_fork_under_the_shim_s_own_lock_does_not_wait_for_it(void) {
    children = 0;
    CHECK(numamirror_test_extents(fork_here, NULL) == 1 && children == 1);
    CHECK(numamirror_test_extents(fork_here, NULL) == 1 && children == 2);
    stand_in_free(&model);
}

static void ignore(void *context, const void *start, size_t bytes) {
    (void)context, (void)start, (void)bytes;
}

/* The thread that holds the lock is not there to finish what it does: the child reads primaries,
 * and leaves alone what the shim knew. */
static void compute_in_a_child(void) {
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    CHECK(read_at(&op) == (char *)model.base);
    stand_in_free(&model);
    CHECK(numamirror_test_extents(ignore, NULL) == 1);
}

static void *fork_and_compute(void *argument) {
    pid_t child = fork();
    if (child == 0) {
        compute_in_a_child();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return argument;
}

/* Holds the lock until that has ended, as a thread does that fills replicas. */
static void fork_elsewhere(void *context, const void *start, size_t bytes) {
    (void)context, (void)start, (void)bytes;
    CHECK(pthread_create(&another, NULL, fork_and_compute, NULL) == 0);
    CHECK(pthread_join(another, NULL) == 0);
    ++children;
}

static void a_fork_does_not_wait_for_replicas_to_be_filled(void) {
    children = 0;
    load();
    CHECK(numamirror_test_extents(fork_elsewhere, NULL) == 1 && children == 1);
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    CHECK(read_at(&op) != (char *)model.base); /* the parent goes on */
    stand_in_free(&model);
}

int main(void) {
    alarm(600);
    RUN(a_library_may_call_the_engine_while_it_is_loaded);
    RUN(a_forked_child_frees_the_model);
    RUN(a_fork_under_the_shim_s_own_lock_does_not_wait_for_it);
    RUN(a_fork_does_not_wait_for_replicas_to_be_filled);
    return 0;
}
