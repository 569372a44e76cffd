/* What a node can still give, from its meminfo. */
#include "check.h"
#include "node_memory.h"

static void free_and_clean_unmapped_cache_count(void) {
    struct nm_node_memory memory;
    CHECK(
        nm_node_memory_parse("Node 1 MemTotal:  3200000 kB\nNode 1 MemFree:  1000 kB\n"
                             "Node 1 Dirty:  100 kB\nNode 1 FilePages:  5000 kB\n"
                             "Node 1 Mapped:  400 kB\nNode 1 Shmem:  500 kB\n",
                             &memory));
    CHECK(memory.free == 1000 * 1024 && memory.reclaimable == 4000 * 1024);
    CHECK(nm_node_memory_available(&memory) == 0); /* the reserve is 1/32 of the node */
    memory.free = 1000000 * 1024ul;
    CHECK(nm_node_memory_available(&memory) == (1000000 + 4000 - 100000) * 1024ul);
}

static void a_busier_cache_than_there_is_counts_as_none(void) {
    struct nm_node_memory memory;
    CHECK(
        nm_node_memory_parse("Node 0 MemFree: 10 kB\nNode 0 FilePages: 5 kB\n"
                             "Node 0 Mapped: 9 kB\n",
                             &memory));
    CHECK(memory.reclaimable == 0);
}

static void a_text_without_free_memory_is_refused(void) {
    struct nm_node_memory memory;
    CHECK(!nm_node_memory_parse("", &memory));
    CHECK(!nm_node_memory_parse("Node 0 MemTotal: 10 kB\n", &memory));
}

int main(void) {
    RUN(free_and_clean_unmapped_cache_count);
    RUN(a_busier_cache_than_there_is_counts_as_none);
    RUN(a_text_without_free_memory_is_refused);
    return 0;
}
