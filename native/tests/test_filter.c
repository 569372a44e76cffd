/* A filter that the program adds is noticed, in this thread and for good. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "check.h"
#include "filter.h"

static void the_kernels_words_are_read(void) {
    CHECK(nm_filter_count("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\n") == 3);
    CHECK(nm_filter_count("Name:\tx\nSeccomp:\t2\n") == 1);
    CHECK(nm_filter_count("Name:\tx\nSeccomp:\t0\n") == 0);
    CHECK(nm_filter_count("") == 0);
}

static void a_real_filter_is_seen_when_it_is_added(void) {
    nm_filter_init();
    CHECK(!nm_filter_added());
    struct sock_filter allow_all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow_all};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(nm_filter_added());
}

int main(void) {
    RUN(the_kernels_words_are_read);
    RUN(a_real_filter_is_seen_when_it_is_added);
    return 0;
}
