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

static size_t left_in(const char *group) {
    char text[TEXT_BYTES];
    if (!read_file(group, "memory.max", text, sizeof text) || strncmp(text, "max", 3) == 0)
        return SIZE_MAX;
    size_t limit = strtoull(text, NULL, 10), cache = 0;
    if (!read_file(group, "memory.current", text, sizeof text)) return SIZE_MAX;
    size_t used = strtoull(text, NULL, 10);
    if (read_file(group, "memory.stat", text, sizeof text)) {
        const char *line = strstr(text, "inactive_file ");
        if (line != NULL) cache = strtoull(line + strlen("inactive_file "), NULL, 10);
    }
    used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

size_t nm_cgroup_left(const char *cgroup_file, const char *mount) {
    const char *line = strstr(cgroup_file, "0::/"); /* cgroups(7): hierarchy 0 is version 2 */
    if (line == NULL) return SIZE_MAX;
    const char *path = line + strlen("0::");
    char group[PATH_BYTES];
    snprintf(group, sizeof group, "%s%.*s", mount, (int)strcspn(path, "\n"), path);
    size_t least = SIZE_MAX;
    while (strlen(group) > strlen(mount)) {
        size_t left = left_in(group);
        if (left < least) least = left;
        *strrchr(group, '/') = '\0';
    }
    return least;
}

size_t nm_cgroup_available(void) {
    char text[TEXT_BYTES];
    return read_text("/proc/self/cgroup", text, sizeof text)
               ? nm_cgroup_left(text, "/sys/fs/cgroup")
               : SIZE_MAX;
}
