/* A program that filters its own calls once its model is loaded, and is killed for any that an
 * engine does not make: under each strategy it must live on. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "front.h"

#define KILL_FOR(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), KILL
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static bool filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL_FOR(move_pages),
        KILL_FOR(mbind),
        KILL_FOR(get_mempolicy),
        KILL_FOR(set_mempolicy),
        KILL_FOR(sched_setaffinity),
        KILL_FOR(sched_getaffinity),
        KILL_FOR(mincore),
        KILL_FOR(madvise),
        KILL_FOR(openat),
        KILL_FOR(socket),
        KILL_FOR(memfd_create),
        KILL_FOR(gettid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static void compute_all_of(struct buffer *model) {
    struct tensor weight = new_weight(model->base, TYPE_F32, 2 * MIB);
    struct tensor column = new_weight(model->base, TYPE_F32, 1024);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    op.src[1] = &column;
    for (int i = 0; i < 3; ++i) read_at(&op);
}

static void a_filtered_program_lives_on(void) {
    static char on_gpu[4096];
    struct buffer early = new_model(4 * MIB), late = new_model(4 * MIB);
    struct buffer gpu = {.device = 1, .device_id = "0000:c1:00.0", .registers = true};
    struct tensor to = new_weight(on_gpu, TYPE_F32, sizeof on_gpu);
    stand_in_mark_weights(&early);
    compute_all_of(&early);

    if (!filter()) {
        printf("skipped: no filters here\n");
        return;
    }
    stand_in_mark_weights(&late);
    compute_all_of(&late);
    compute_all_of(&early);
    stand_in_upload(&gpu, &to, early.base, sizeof on_gpu);
    stand_in_set(&to, "new", 0, 3);
    stand_in_clear(&early, 'z');
    stand_in_free(&late);
    stand_in_free(&early);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0); /* which would ask for the terminal's kind later */
    RUN(a_filtered_program_lives_on);
    return 0;
}
