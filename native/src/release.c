#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heal.h"
#include "mapped_file.h"
#include "page_size.h"

static size_t resident_pages(uintptr_t start, uintptr_t end) {
    size_t pages = (end - start) / nm_page_bytes(), resident = 0;
    unsigned char *seen = malloc(pages);
    if (seen != NULL && mincore((void *)start, end - start, seen) == 0)
        for (size_t i = 0; i < pages; ++i) resident += seen[i] & 1;
    free(seen);
    return resident;
}

/* Whole pages only: the rest of the first and last one may hold what GEMM does not read. */
static size_t release_part(const struct nm_mapped_file *mapping, uintptr_t start, uintptr_t end) {
    start = nm_page_from(start);
    end = nm_page_at(end);
    if (start >= end) return 0;
    int fd = open(mapping->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    size_t before = resident_pages(start, end);
    madvise((void *)start, end - start, MADV_DONTNEED);
    off_t offset = (off_t)(mapping->offset + (start - mapping->start));
    posix_fadvise(fd, offset, (off_t)(end - start), POSIX_FADV_DONTNEED);
    close(fd);
    size_t after = resident_pages(start, end);
    return before > after ? (before - after) * nm_page_bytes() : 0;
}

static size_t release_range(struct nm_maps *maps, const struct nm_range *range) {
    struct nm_mapped_file mapping;
    size_t released = 0;
    uintptr_t low = (uintptr_t)range->start, high = low + range->bytes;
    nm_maps_begin(maps);
    while (nm_maps_next(maps, &mapping)) {
        if (mapping.end <= low || mapping.start >= high) continue;
        /* A private one may hold changes that its file does not: they would be lost. */
        if (!mapping.readable || mapping.writable || !mapping.shared) continue;
        uintptr_t start = low > mapping.start ? low : mapping.start;
        released += release_part(&mapping, start, high < mapping.end ? high : mapping.end);
    }
    return released;
}

size_t nm_release_page_cache(const struct nm_range *ranges, size_t count) {
    struct nm_maps maps = {0};
    size_t released = 0;
    for (size_t i = 0; i < count; ++i) released += release_range(&maps, &ranges[i]);
    nm_maps_end(&maps);
    return released;
}
