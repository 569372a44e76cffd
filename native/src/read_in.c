#include "read_in.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    /* What one MADV_WILLNEED reads at the most, whatever was asked for, is the device's readahead
     * (mm/readahead.c: force_page_cache_ra); this is the kernel's default for it. */
    STEP = 128 << 10,
};

static bool all_resident(void *start, size_t bytes) {
    unsigned char resident[STEP / PAGE + 1];
    if (mincore(start, bytes, resident) != 0) return true;
    for (size_t i = 0; i < (bytes + PAGE - 1) / PAGE; ++i)
        if ((resident[i] & 1) == 0) return false;
    return true;
}

/* Engines map their files with MADV_RANDOM on machines with several nodes: each page fault would
 * read one page. MADV_WILLNEED disregards that, and takes the mapping's own offset. */
void nm_read_in(const char *start, size_t bytes) {
    int saved = errno;
    uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t at = (uintptr_t)start / PAGE * PAGE; at < end; at += STEP) {
        size_t part = end - at < STEP ? end - at : STEP;
        if (!all_resident((void *)at, part)) madvise((void *)at, part, MADV_WILLNEED);
    }
    errno = saved;
}
