/* Who reads what: threads over copies, and rows over threads. */
#ifndef NM_PARTITION_H
#define NM_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The copy for thread `ith` of `nth`: consecutive threads stay together, and a copy gets threads
 * in proportion to the physical cores that read it. */
int nm_partition_copy(int ith, int nth);

/* That proportion: 0.5 for each of two equal copies. */
double nm_partition_share(int copy);

/* Whether a copy gets more of `nth` threads than it has physical cores, so that some share one. */
bool nm_partition_needs_siblings(int copy, int nth);

/* The copy whose thread reads the byte at `offset` of a weight of slabs (a matrix, or one for each
 * expert), when `threads` share the rows of a slab: thread i reads rows [i * n, (i + 1) * n), n =
 * rows / threads rounded up, as ggml's static partition has it. */
int nm_partition_owner(size_t offset, size_t slab_bytes, int64_t rows, int threads);

#endif
