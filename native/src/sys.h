/* The system calls that libc does not wrap, and their constants. Each returns 0 or an errno. */
#ifndef NM_SYS_H
#define NM_SYS_H

#include <stdbool.h>
#include <stddef.h>

/* include/uapi/linux/mempolicy.h */
enum { NM_MPOL_DEFAULT = 0, NM_MPOL_PREFERRED = 1, NM_MPOL_BIND = 2, NM_MPOL_INTERLEAVE = 3 };

/* mbind(2): sets the policy of [start, start + bytes) for pages not yet there. */
int nm_mbind(void *start, size_t bytes, int mode, const int *nodes, int node_count);

/* set_mempolicy(2): the calling thread's memory comes from its own node. */
int nm_default_policy(void);

/* The calling thread's policy, to be set again later; kept in the kernel's terms. */
struct nm_policy {
    int mode;
    unsigned long nodes[1024 / (8 * sizeof(long))];
};
int nm_get_policy(struct nm_policy *policy);
int nm_set_policy(const struct nm_policy *policy);

/* move_pages(2) of this process. nodes NULL: only asks; status[i] is a node or -errno. EBUSY: some
 * pages have a user who keeps them from moving, and status says nothing of them. */
int nm_move_pages(size_t count, void **pages, const int *nodes, int *status);

/* get_mempolicy(2) with MPOL_F_NODE | MPOL_F_ADDR: the node of one page, or -errno. */
int nm_node_of_page(void *page);

/* mprotect(2), past whoever stands before libc's: a program with a sanitizer inside has its own, in
 * the very code that may be changing. */
int nm_mprotect(void *start, size_t bytes, int rights);

/* memfd_create(2), close-on-exec; returns a descriptor or -errno. */
int nm_memfd(const char *name);

/* Keeps such a file, once it has its size, from being given another by anybody: fcntl(2). */
int nm_seal_size(int memfd);

/* /proc/thread-self/status (proc(5)), NUL-terminated; false where it cannot be read. */
bool nm_thread_status(char *text, size_t bytes);

/* prctl(PR_SET_VMA_ANON_NAME): names the mapping in /proc/PID/maps where the kernel can. */
void nm_name_mapping(void *start, size_t bytes, const char *name);

/* Binds the calling thread to the CPUs, of at most 8192, whose byte in copy_of_cpu is `copy`. */
int nm_run_on_copy(const signed char *copy_of_cpu, int cpus, int copy);

#endif
