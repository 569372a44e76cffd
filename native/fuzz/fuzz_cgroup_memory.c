/* /proc/self/cgroup, and the files of the group that it names: parts between NULs. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup_memory.h"
#include "fuzz.h"

static const char *const files[] = {"memory.max", "memory.current", "memory.stat"};

static const char *mount_point(void) {
    static char directory[64];
    if (directory[0] != '\0') return directory;
    snprintf(directory, sizeof directory, "/dev/shm/numamirror-fuzz-%ld", (long)getpid());
    char group[80];
    snprintf(group, sizeof group, "%s/g", directory);
    if (mkdir(directory, 0700) != 0 || mkdir(group, 0700) != 0) abort();
    return directory;
}

static void write_file(const char *name, const char *text, size_t bytes) {
    char path[128];
    snprintf(path, sizeof path, "%s/g/%s", mount_point(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes) abort();
    close(fd);
}

__attribute__((destructor)) static void clean_up(void) {
    char path[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
        snprintf(path, sizeof path, "%s/g/%s", mount_point(), files[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/g", mount_point());
    rmdir(path);
    rmdir(mount_point());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes), *end = text + bytes;
    const char *part = text + strlen(text);
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
        if (part < end) ++part;
        write_file(files[i], part, strlen(part));
        part += strlen(part);
    }
    (void)nm_cgroup_left(text, mount_point());
    (void)nm_cgroup_left("0::/g\n", mount_point());
    free(text);
    return 0;
}
