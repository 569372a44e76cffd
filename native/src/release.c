#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heal.h"

enum { PAGE = 4096 };

/* A line of /proc/self/maps that shows a file mapped without the right to write. */
struct file_mapping {
    uintptr_t start, end;
    uint64_t offset;
    char path[1024];
};

static bool parse_line(const char *line, struct file_mapping *mapping) {
    char rights[5];
    int path_at = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*s %*s %n", &mapping->start,
               &mapping->end, rights, &mapping->offset, &path_at) < 4)
        return false;
    if (rights[0] != 'r' || rights[1] == 'w' || path_at == 0 || line[path_at] != '/') return false;
    snprintf(mapping->path, sizeof mapping->path, "%s", line + path_at);
    mapping->path[strcspn(mapping->path, "\n")] = '\0';
    return true;
}

static size_t resident_pages(uintptr_t start, uintptr_t end) {
    size_t pages = (end - start) / PAGE, resident = 0;
    unsigned char *seen = malloc(pages);
    if (seen != NULL && mincore((void *)start, end - start, seen) == 0)
        for (size_t i = 0; i < pages; ++i) resident += seen[i] & 1;
    free(seen);
    return resident;
}

/* Whole pages only: the rest of the first and last one may hold what GEMM does not read. */
static size_t release_part(const struct file_mapping *mapping, uintptr_t start, uintptr_t end) {
    start = (start + PAGE - 1) / PAGE * PAGE;
    end = end / PAGE * PAGE;
    if (start >= end) return 0;
    int fd = open(mapping->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    size_t before = resident_pages(start, end);
    madvise((void *)start, end - start, MADV_DONTNEED);
    off_t offset = (off_t)(mapping->offset + (start - mapping->start));
    posix_fadvise(fd, offset, (off_t)(end - start), POSIX_FADV_DONTNEED);
    close(fd);
    size_t after = resident_pages(start, end);
    return before > after ? (before - after) * PAGE : 0;
}

static size_t release_range(FILE *maps, const struct nm_range *range) {
    char line[1200];
    struct file_mapping mapping;
    size_t released = 0;
    uintptr_t low = (uintptr_t)range->start, high = low + range->bytes;
    rewind(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        if (!parse_line(line, &mapping) || mapping.end <= low || mapping.start >= high) continue;
        uintptr_t start = low > mapping.start ? low : mapping.start;
        released += release_part(&mapping, start, high < mapping.end ? high : mapping.end);
    }
    return released;
}

size_t nm_release_page_cache(const struct nm_range *ranges, size_t count) {
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t released = 0;
    for (size_t i = 0; maps != NULL && i < count; ++i) released += release_range(maps, &ranges[i]);
    if (maps != NULL) fclose(maps);
    return released;
}
