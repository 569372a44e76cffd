/* How much memory the control group still grants: a container's limit can lie below the nodes'. */
#ifndef NM_CGROUP_MEMORY_H
#define NM_CGROUP_MEMORY_H

#include <stddef.h>

/* Bytes left under the tightest limit from the process's cgroup up to the root that it sees, clean
 * inactive page cache counted as free; SIZE_MAX without a limit. `cgroup_file` is the text of
 * /proc/self/cgroup, `mount` where cgroup2 is mounted, or below it version 1's controllers. */
size_t nm_cgroup_left(const char *cgroup_file, const char *mount);

/* The same for this process, live. */
size_t nm_cgroup_available(void);

#endif
