/* The kernel does not tell where pages lie, as under a seccomp profile that refuses move_pages:
 * neither weights that were spread nor those that are observed are said to lie anywhere. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "build.h"
#include "config.h"
#include "heard.h"
#include "observe.h"
#include "registry.h"
#include "status.h"

enum { MIB = 1 << 20 };

static bool refuse_move_pages(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_move_pages, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void configure(bool interleave) {
    memset(&nm_config, 0, sizeof nm_config);
    nm_config.active = nm_config.log = true;
    nm_config.interleave = interleave;
    nm_config.observe = !interleave;
    nm_config.copies = 1;
    nm_config.copy[0].node_count = 1;
}

static char *build(void) {
    char *model = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(model != MAP_FAILED);
    nm_registry_add_buffer(model, model, MIB, true);
    struct nm_candidate all = {
        .start = (uintptr_t)model, .bytes = MIB, .by_expert = false, .token_bytes = MIB};
    nm_build(&all, 1, true, "");
    return model;
}

static void forget(char *model) {
    nm_registry_drop_buffer(model);
    munmap(model, MIB);
}

static void weights_that_were_to_be_spread_are_not_said_to_be(void) {
    configure(true);
    char *model = build();
    CHECK(strcmp(nm_status->reason,
                 "where the weights' pages are is not known: move_pages is refused") == 0);
    CHECK(times_said("\"what\":\"where the weights' pages are is not known\"") == 1);
    CHECK(times_said("move_pages: EPERM") == 1);
    CHECK(times_said("interleave: of the sampled pages") == 0);
    forget(model);
}

static void weights_that_are_observed_have_that_as_their_reason(void) {
    configure(false);
    char *model = build();
    nm_observe(1);
    CHECK(strcmp(nm_status->reason, "the kernel did not say where the weights' pages are") == 0);
    forget(model);
}

int main(void) {
    listen_to_the_shim();
    if (!refuse_move_pages()) {
        printf("skipped: this kernel installs no seccomp filter\n");
        return 0;
    }
    RUN(weights_that_were_to_be_spread_are_not_said_to_be);
    RUN(weights_that_are_observed_have_that_as_their_reason);
    return 0;
}
