#include "partition.h"

#include "config.h"

/* SMT siblings share what a core can read. */
static long weight_of(int copy) {
    int cores = nm_config.copy[copy].core_count;
    return nm_config.rehearsal != 0 || cores == 0 ? 1 : cores;
}

static long weight_of_all(void) {
    long total = 0;
    for (int copy = 0; copy < nm_config.copies; ++copy) total += weight_of(copy);
    return total;
}

double nm_partition_share(int copy) { return (double)weight_of(copy) / (double)weight_of_all(); }

int nm_partition_copy(int ith, int nth) {
    long total = weight_of_all(), before = 0;
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        before += weight_of(copy);
        if ((2L * ith + 1) * total < 2L * nth * before) return copy;
    }
    return nm_config.copies - 1;
}

bool nm_partition_needs_siblings(int copy, int nth) {
    int here = 0;
    for (int ith = 0; ith < nth; ++ith) here += nm_partition_copy(ith, nth) == copy;
    return here > nm_config.copy[copy].core_count;
}

int nm_partition_owner(size_t offset, size_t slab_bytes, int64_t rows, int threads) {
    if (rows < 1 || slab_bytes == 0) return nm_partition_copy(0, threads);
    int64_t share = (rows + threads - 1) / threads;
    double part = (double)(offset % slab_bytes) / (double)slab_bytes;
    int64_t row = (int64_t)(part * (double)rows);
    return nm_partition_copy((int)(row / share), threads);
}
