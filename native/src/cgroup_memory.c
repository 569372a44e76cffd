#include "cgroup_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TEXT_BYTES = 16384 };

static bool read_text(const char *path, char *text, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, text, bytes - 1);
    close(fd);
    if (got < 0) return false;
    text[got] = '\0';
    return true;
}

static bool read_file(const char *group, const char *file, char *text, size_t bytes) {
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", group, file);
    return read_text(path, text, bytes);
}

/* What the two versions call it; bytes each. slow: from there on, all in the group wait until they
 * have given memory back; version 1 has none. In version 1 only the totals are those of groups
 * below too. */
struct names {
    const char *limit, *slow, *used, *cache;
};
static const struct names v2 = {"memory.max", "memory.high", "memory.current", "\ninactive_file "};
static const struct names v1 = {"memory.limit_in_bytes", NULL, "memory.usage_in_bytes",
                                "\ntotal_inactive_file "};

static size_t limit_in(const char *group, const char *file) {
    char text[32];
    if (file == NULL || !read_file(group, file, text, sizeof text)) return SIZE_MAX;
    return strncmp(text, "max", 3) == 0 ? SIZE_MAX : strtoull(text, NULL, 10);
}

static size_t left_in(const char *group, const struct names *names) {
    char text[TEXT_BYTES];
    size_t limit = limit_in(group, names->limit), slow = limit_in(group, names->slow), cache = 0;
    if (slow < limit) limit = slow;
    if (limit == SIZE_MAX || !read_file(group, names->used, text, sizeof text)) return SIZE_MAX;
    size_t used = strtoull(text, NULL, 10);
    if (read_file(group, "memory.stat", text + 1, sizeof text - 1)) {
        text[0] = '\n'; /* so that each line has one before it */
        const char *line = strstr(text, names->cache);
        if (line != NULL) cache = strtoull(line + strlen(names->cache), NULL, 10);
    }
    used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

/* From the group whose path follows `key` up to where the hierarchy is mounted: a container has its
 * limit there, and may not see the path. */
static size_t left_on_the_way_up(const char *cgroup_file, const char *key, const char *mount,
                                 const struct names *names) {
    const char *path = strstr(cgroup_file, key);
    if (path == NULL) return SIZE_MAX;
    path += strlen(key);
    char group[PATH_BYTES];
    snprintf(group, sizeof group, "%s/%.*s", mount, (int)strcspn(path, "\n"), path);
    size_t least = SIZE_MAX;
    while (strlen(group) >= strlen(mount)) {
        size_t left = left_in(group, names);
        if (left < least) least = left;
        *strrchr(group, '/') = '\0';
    }
    return least;
}

/* cgroups(7): hierarchy 0 is version 2; version 1 has one for each controller. */
size_t nm_cgroup_left(const char *cgroup_file, const char *mount) {
    char mount_of_v1[PATH_BYTES];
    snprintf(mount_of_v1, sizeof mount_of_v1, "%s/memory", mount);
    size_t left = left_on_the_way_up(cgroup_file, "0::/", mount, &v2);
    size_t left_of_v1 = left_on_the_way_up(cgroup_file, ":memory:/", mount_of_v1, &v1);
    return left < left_of_v1 ? left : left_of_v1;
}

size_t nm_cgroup_available(void) {
    char text[TEXT_BYTES];
    return read_text("/proc/self/cgroup", text, sizeof text)
               ? nm_cgroup_left(text, "/sys/fs/cgroup")
               : SIZE_MAX;
}
