/* --pin on a stand-in engine without OpenMP: one copy for CPU 0 and one for CPU 1. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "front.h"
#include "heard.h"

enum { THREADS = 2, OPS = 3, GRAPHS = 2 };

/* Where each thread may run after each op. */
static cpu_set_t seen[THREADS][OPS];
static int ops[THREADS];

static cpu_set_t mask_here(void) {
    cpu_set_t mask;
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    return mask;
}

static bool is_only(const cpu_set_t *mask, int cpu) {
    return CPU_COUNT(mask) == 1 && CPU_ISSET(cpu, mask);
}

static void look(int ith) { seen[ith][ops[ith]++] = mask_here(); }

static void look_and_bind_to_cpu_0(int ith) {
    look(ith);
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
}

static void compute(void (*after_op)(int)) {
    static struct buffer model;
    if (model.base == NULL) {
        model = new_model(2 * MIB);
        stand_in_mark_weights(&model);
    }
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    memset(ops, 0, sizeof ops);
    CHECK(stand_in_compute_by_threads(&op, THREADS, OPS, after_op) == 0);
}

static void threads_are_bound_from_their_first_op_on_in_every_graph(void) {
    for (int graph = 0; graph < GRAPHS; ++graph) {
        compute(look);
        for (int ith = 0; ith < THREADS; ++ith)
            for (int i = 0; i < OPS; ++i) CHECK(is_only(&seen[ith][i], ith));
    }
}

static void an_engine_that_binds_them_elsewhere_is_overruled_at_the_next_op(void) {
    compute(look_and_bind_to_cpu_0);
    for (int i = 0; i < OPS; ++i) CHECK(is_only(&seen[1][i], 1));
    compute(look_and_bind_to_cpu_0);
    CHECK(times_said("something binds the engine's threads anew while it computes") == 1);
    CHECK(times_said("they are bound back each time, which costs a system call and a move") == 1);
    CHECK(times_said("start the engine without --numa, --cpu-mask and --cpu-strict") == 1);
}

static void the_application_keeps_its_own_mask(void) {
    cpu_set_t before = mask_here();
    CHECK(CPU_COUNT(&before) > 1);
    compute(look);
    cpu_set_t after = mask_here();
    CHECK(CPU_EQUAL(&before, &after));
}

/* Stands before libc's, for the shim too. With CPUs beyond 1024 the kernel has longer masks than
 * cpu_set_t, and turns a shorter one down. */
static _Atomic size_t shortest_mask;

__attribute__((visibility("default"))) long syscall(long number, ...) {
    static long (*_Atomic real)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_sched_getaffinity && (size_t)a[1] < shortest_mask) {
        errno = EINVAL;
        return -1;
    }
    if (real == NULL) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void it_does_so_on_a_machine_with_more_than_1024_cpus(void) {
    shortest_mask = 4096 / 8;
    the_application_keeps_its_own_mask();
    shortest_mask = 0;
}

int main(void) {
    cpu_set_t mask = mask_here();
    if (!CPU_ISSET(0, &mask) || !CPU_ISSET(1, &mask)) {
        printf("skipped: needs CPUs 0 and 1\n");
        return 0;
    }
    listen_to_the_shim();
    RUN(threads_are_bound_from_their_first_op_on_in_every_graph);
    RUN(an_engine_that_binds_them_elsewhere_is_overruled_at_the_next_op);
    RUN(the_application_keeps_its_own_mask);
    RUN(it_does_so_on_a_machine_with_more_than_1024_cpus);
    return 0;
}
