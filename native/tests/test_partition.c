/* Threads over copies, rows over threads. */
#include "check.h"
#include "config.h"
#include "partition.h"

static void copies_of(const int *cpus, int count) {
    nm_config.copies = count;
    for (int i = 0; i < count; ++i) nm_config.copy[i].core_count = cpus[i];
}

static void consecutive_threads_stay_together(void) {
    copies_of((const int[]){8, 8}, 2);
    for (int ith = 0; ith < 16; ++ith) CHECK(nm_partition_copy(ith, 16) == ith / 8);
    CHECK(nm_partition_copy(0, 1) == 0 || nm_partition_copy(0, 1) == 1);
}

static void unequal_nodes_get_threads_by_their_cores(void) {
    copies_of((const int[]){3, 1}, 2);
    int first = 0;
    for (int ith = 0; ith < 8; ++ith) first += nm_partition_copy(ith, 8) == 0;
    CHECK(first == 6);
}

static void threads_share_a_core_only_where_there_are_more_of_them(void) {
    copies_of((const int[]){3, 1}, 2);
    CHECK(!nm_partition_needs_siblings(0, 4) && !nm_partition_needs_siblings(1, 4));
    CHECK(nm_partition_needs_siblings(0, 8) && nm_partition_needs_siblings(1, 8));
}

static void each_thread_owns_its_rows_of_every_slab(void) {
    copies_of((const int[]){2, 2}, 2);
    enum { ROWS = 10, ROW = 100, SLAB = ROWS * ROW, THREADS = 4 }; /* 3, 3, 3 and 1 rows */
    for (int slab = 0; slab < 3; ++slab)
        for (int row = 0; row < ROWS; ++row)
            for (int byte = 0; byte < ROW; byte += 33)
                CHECK(nm_partition_owner((size_t)(slab * SLAB + row * ROW + byte), SLAB, ROWS,
                                         THREADS) == nm_partition_copy(row / 3, THREADS));
}

static void a_weight_without_a_shape_has_one_owner(void) {
    copies_of((const int[]){2, 2}, 2);
    CHECK(nm_partition_owner(500, 0, 0, 4) == nm_partition_owner(0, 0, 0, 4));
}

int main(void) {
    RUN(consecutive_threads_stay_together);
    RUN(unequal_nodes_get_threads_by_their_cores);
    RUN(threads_share_a_core_only_where_there_are_more_of_them);
    RUN(each_thread_owns_its_rows_of_every_slab);
    RUN(a_weight_without_a_shape_has_one_owner);
    return 0;
}
