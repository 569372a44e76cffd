/* Where pages really are, asked of the kernel after the act. */
#ifndef NM_SAMPLE_H
#define NM_SAMPLE_H

#include <stddef.h>

enum { NM_SAMPLE_PAGES = 512 };

struct nm_range {
    const char *start;
    size_t bytes;
};

struct nm_sample {
    unsigned pages; /* that the kernel answered for */
    unsigned local; /* of those, on one of the nodes asked about */
    int error;      /* errno of move_pages; 0 when it answered */
};

/* Where to look for the i-th of `count` pages: one in each of equal parts, at no fixed distance
 * from the last, which would see only every other page of interleaved memory. */
size_t nm_sample_offset(size_t bytes, size_t count, size_t i);

/* Looks at up to NM_SAMPLE_PAGES pages spread evenly over the ranges. Each is read first, so that
 * a page not yet faulted in has a place. In a rehearsal every node counts as local. */
struct nm_sample nm_sample_ranges(const struct nm_range *ranges, size_t count, const int *nodes,
                                  int node_count);

#endif
