/* Copies on a node that this machine does not have, so that every page lies elsewhere: what is done
 * then, and what is said. Both copies are real ones; nothing is rehearsed. */
#include <stdint.h>
#include <sys/mman.h>

#include "build.h"
#include "config.h"
#include "heard.h"
#include "registry.h"
#include "status.h"
#include "sys.h"

enum { MIB = 1 << 20, ABSENT = 1000 };

static char *memory(size_t bytes) {
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    memset(start, 'w', bytes);
    return start;
}

static bool placement_is_told(void) {
    char *page = memory(4096);
    void *pages[] = {page};
    int status[1] = {-1};
    int error = nm_move_pages(1, pages, NULL, status);
    munmap(page, 4096);
    return error == 0 && status[0] >= 0;
}

static void set_node(int copy, int node) {
    nm_config.copy[copy].node_count = 1;
    nm_config.copy[copy].nodes[0] = node;
    snprintf(nm_config.copy[copy].nodes_text, sizeof nm_config.copy[copy].nodes_text, "%d", node);
}

/* Home is the first of the two nodes. */
static void configure(int home, int other) {
    memset(&nm_config, 0, sizeof nm_config);
    nm_config.active = nm_config.log = nm_config.heal = true;
    nm_config.copies = 2;
    nm_config.min_bytes = MIB;
    nm_config.home = home;
    set_node(0, home);
    set_node(1, other);
}

static void build(char *model, size_t bytes) {
    nm_registry_add_buffer(model, model, bytes, true);
    struct nm_candidate all = {
        .start = (uintptr_t)model, .bytes = bytes, .by_expert = false, .token_bytes = bytes};
    nm_build(&all, 1, true, "");
}

static void forget(char *model, size_t bytes) {
    nm_registry_drop_buffer(model);
    munmap(model, bytes);
}

static void a_replica_that_landed_elsewhere_is_dropped_and_the_primary_is_read(void) {
    configure(0, ABSENT);
    char *model = memory(4 * MIB);
    build(model, 4 * MIB);
    const struct nm_weight *weight = nm_table_find(atomic_load(&nm_table), (uintptr_t)model);
    CHECK(weight != NULL && weight->delta[0] == 0 && weight->delta[1] == 0);
    CHECK(nm_status->mirrored_bytes == 0);
    CHECK(strstr(nm_status->reason, "landed there; it was dropped") != NULL);
    CHECK(times_said("node 1000: only 0 of ") == 1);
    CHECK(times_said("sampled pages of the replica landed there") == 1);
    CHECK(times_said("the node had too little free memory, or the policy call was refused") == 1);
    CHECK(times_said("the replica was dropped; free memory on that node and start again") == 1);
    forget(model, 4 * MIB);
}

static void weights_that_cannot_be_moved_home_are_said_with_the_numbers_of_pages(void) {
    configure(ABSENT, 0);
    char *model = memory(4 * MIB);
    build(model, 4 * MIB);
    CHECK(times_said("the weights were not at home: 0 of ") == 1);
    CHECK(times_said("sampled pages on node 1000 before moving them, 0 of ") == 1);
    CHECK(times_said("the home node gets a replica of its own") == 1);
    forget(model, 4 * MIB);
}

static void weights_that_are_left_where_they_are_are_told_of(void) {
    configure(ABSENT, 0);
    nm_config.heal = false;
    char *model = memory(4 * MIB);
    build(model, 4 * MIB);
    CHECK(times_said("sampled pages of the weights are on home node 1000") == 1);
    CHECK(times_said("the home node gets a replica of its own") == 2);
    forget(model, 4 * MIB);
}

int main(void) {
    if (!placement_is_told()) {
        printf("skipped: the kernel does not say where pages lie\n");
        return 0;
    }
    listen_to_the_shim();
    RUN(a_replica_that_landed_elsewhere_is_dropped_and_the_primary_is_read);
    RUN(weights_that_cannot_be_moved_home_are_said_with_the_numbers_of_pages);
    RUN(weights_that_are_left_where_they_are_are_told_of);
    return 0;
}
