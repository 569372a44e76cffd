/* How much memory the control group still grants: a container's limit can lie below the nodes'. */
#ifndef NM_CGROUP_MEMORY_H
#define NM_CGROUP_MEMORY_H

#include <stddef.h>

/* Bytes left under the tightest memory.max from the process's cgroup (v2) up to the root, clean
 * inactive page cache counted as free; SIZE_MAX without a limit. `cgroup_file` is the text of
 * /proc/self/cgroup, `mount` where cgroup2 is mounted. */
size_t nm_cgroup_left(const char *cgroup_file, const char *mount);

/* The same for this process, live. */
size_t nm_cgroup_available(void);

#endif
