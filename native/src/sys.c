#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { BITS_PER_WORD = 8 * sizeof(unsigned long), MASK_WORDS = 1024 / BITS_PER_WORD };

static int result(long value) { return value == -1 ? errno : 0; }

int nm_mbind(void *start, size_t bytes, int mode, const int *nodes, int node_count) {
    unsigned long mask[MASK_WORDS] = {0};
    for (int i = 0; i < node_count; ++i) {
        if (nodes[i] < 0 || nodes[i] >= MASK_WORDS * BITS_PER_WORD) return EINVAL;
        mask[nodes[i] / BITS_PER_WORD] |= 1UL << (nodes[i] % BITS_PER_WORD);
    }
    /* The kernel reads maxnode - 1 bits (mm/mempolicy.c, get_nodes). */
    return result(syscall(SYS_mbind, start, bytes, mode, mask, MASK_WORDS * BITS_PER_WORD + 1, 0));
}

int nm_default_policy(void) {
    enum { MPOL_DEFAULT = 0 };
    return result(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0));
}

int nm_get_policy(struct nm_policy *policy) {
    return result(
        syscall(SYS_get_mempolicy, &policy->mode, policy->nodes, MASK_WORDS * BITS_PER_WORD, 0, 0));
}

int nm_set_policy(const struct nm_policy *policy) {
    return result(
        syscall(SYS_set_mempolicy, policy->mode, policy->nodes, MASK_WORDS * BITS_PER_WORD + 1));
}

int nm_move_pages(size_t count, void **pages, const int *nodes, int *status) {
    enum { MPOL_MF_MOVE = 2 };
    long stayed = syscall(SYS_move_pages, 0, count, pages, nodes, status, MPOL_MF_MOVE);
    return stayed > 0 ? EBUSY : result(stayed);
}

int nm_node_of_page(void *page) {
    enum { MPOL_F_NODE = 1, MPOL_F_ADDR = 2 };
    int node = -1;
    long asked = syscall(SYS_get_mempolicy, &node, NULL, 0, page, MPOL_F_NODE | MPOL_F_ADDR);
    return asked == 0 ? node : -errno;
}

int nm_mprotect(void *start, size_t bytes, int rights) {
    return result(syscall(SYS_mprotect, start, bytes, rights));
}

int nm_memfd(const char *name) {
    enum { CLOSE_ON_EXEC = 1, ALLOW_SEALING = 2 };
    long fd = syscall(SYS_memfd_create, name, CLOSE_ON_EXEC | ALLOW_SEALING);
    return fd < 0 ? -errno : (int)fd;
}

int nm_seal_size(int memfd) {
    enum { ADD_SEALS = 1033, SEAL = 1, SHRINK = 2, GROW = 4 };
    return result(fcntl(memfd, ADD_SEALS, SEAL | SHRINK | GROW));
}

bool nm_thread_status(char *text, size_t bytes) {
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, text, bytes - 1);
    close(fd);
    if (got <= 0) return false;
    text[got] = '\0';
    return true;
}

void nm_name_mapping(void *start, size_t bytes, const char *name) {
    int saved = errno;
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (uintptr_t)start, bytes, (uintptr_t)name);
    errno = saved;
}

int nm_run_on_copy(const signed char *copy_of_cpu, int cpus, int copy) {
    enum { MOST_CPUS = 8192 };
    unsigned long mask[MOST_CPUS / BITS_PER_WORD] = {0};
    for (int cpu = 0; cpu < cpus; ++cpu)
        if (copy_of_cpu[cpu] == copy) mask[cpu / BITS_PER_WORD] |= 1UL << (cpu % BITS_PER_WORD);
    return result(syscall(SYS_sched_setaffinity, 0, sizeof mask, mask));
}
