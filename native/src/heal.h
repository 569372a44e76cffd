/*
 * Bringing pages to the node where they belong: a primary that was loaded elsewhere (another
 * policy, a stale page cache), or the part of a replica that spilled over.
 */
#ifndef NM_HEAL_H
#define NM_HEAL_H

#include <stdbool.h>
#include <stddef.h>

#include "sample.h"

/* How far move_pages(2) came. */
struct nm_healing {
    size_t pages; /* asked for */
    size_t there; /* that are on the node now */
    int error;    /* errno of the call, or of the page that refused last; 0: all went */
};

enum { NM_PROBE_BYTES = 1 << 30 };

/* Moves the pages of the ranges to the node. The first `probe_bytes`, whole pages, are a probe:
 * when most of them stay where they are, the rest is left alone. Pages are faulted in on the way.
 */
struct nm_healing nm_heal(const struct nm_range *ranges, size_t count, int node,
                          size_t probe_bytes);

/* Why pages stayed, in words. */
const char *nm_heal_reason(int error);

/* Lets go of the clean page cache behind read-only file mappings of the ranges: the process's own
 * pages, and the file's as far as no one else uses them. Returns the bytes whose pages are gone,
 * asked of the kernel. The data stays readable: it comes from the file again. */
size_t nm_release_page_cache(const struct nm_range *ranges, size_t count);

#endif
