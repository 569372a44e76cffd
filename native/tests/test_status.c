/* The status page in processes that were given little: it must never be what ends them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "config.h"
#include "heard.h"
#include "status.h"

/* Each in a process of its own, whose limits stay its own. */
static void in_a_child(void (*test)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        test();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void write_everywhere(void) {
    memset(nm_status->thread, 0, sizeof nm_status->thread);
    memset(nm_status->group, 0, sizeof nm_status->group);
}

/* ftruncate(2): beyond the limit the kernel sends SIGXFSZ, which ends a process. */
static void open_where_files_are_short(void) {
    const struct rlimit less = {sizeof(struct nm_status) - 1, sizeof(struct nm_status) - 1};
    CHECK(setrlimit(RLIMIT_FSIZE, &less) == 0);
    nm_status_open();
    write_everywhere();
}

static void a_limit_on_files_ends_nobody(void) {
    in_a_child(open_where_files_are_short);
    CHECK(times_said("no status page: inspect will not see the mirror") == 1);
    CHECK(times_said("File too large") == 1);
}

static bool is_the_page(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 && file.st_size == sizeof(struct nm_status) &&
           fcntl(fd, F_GETFD) == FD_CLOEXEC;
}

/* Whatever the program prints then would go into the page. */
static void open_without_standard_streams(void) {
    enum { MOST = 64 };
    int found = 0;
    for (int fd = 0; fd < 3; ++fd) close(fd);
    nm_status_open();
    for (int fd = 0; fd < MOST && found == 0; ++fd)
        if (is_the_page(fd)) found = fd;
    if (found < 3) _exit(1);
}

static void it_takes_no_standard_stream_s_place(void) { in_a_child(open_without_standard_streams); }

/* As by "> /proc/PID/fd/N" of the same user: the next store to what is gone would be a SIGBUS. */
static void open_and_have_it_cut(void) {
    enum { MOST = 64 };
    nm_status_open();
    for (int fd = 3; fd < MOST; ++fd)
        if (is_the_page(fd) && ftruncate(fd, 0) == 0) printf("fd %d was cut\n", fd);
    write_everywhere();
}

static void nobody_can_make_it_shorter(void) { in_a_child(open_and_have_it_cut); }

static bool refuse_memfd(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* A container's /dev/shm is small and can be full. */
static void open_where_shared_memory_is_full(void) {
    bool own = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!own || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, "size=16384") != 0 || !refuse_memfd()) {
        printf("skipped: no mounts or no filters of its own here\n");
        fflush(stdout);
        return;
    }
    nm_status_open();
    write_everywhere();
}

static void a_full_shared_memory_ends_nobody(void) { in_a_child(open_where_shared_memory_is_full); }

int main(void) {
    listen_to_the_shim();
    nm_config.log = true;
    RUN(a_limit_on_files_ends_nobody);
    RUN(it_takes_no_standard_stream_s_place);
    RUN(nobody_can_make_it_shorter);
    RUN(a_full_shared_memory_ends_nobody);
    return 0;
}
