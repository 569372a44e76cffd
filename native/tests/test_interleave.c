/* Weights spread over nodes. A machine of one node has one place for them: what is asked here is
 * that bytes stay, that only weights are touched, and what is said; tests/guest has the nodes. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "config.h"
#include "heard.h"
#include "interleave.h"
#include "sys.h"

enum { MIB = 1 << 20, PAGE = 4096, ABSENT = 1000 };

static char *memory(size_t bytes) {
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

/* All copies on node 0, or rehearsed. */
static void configure(int copies, bool rehearsal) {
    memset(&nm_config, 0, sizeof nm_config);
    nm_config.active = nm_config.interleave = nm_config.log = true;
    nm_config.copies = copies;
    nm_config.rehearsal = rehearsal ? (unsigned)copies : 0;
    for (int i = 0; i < copies; ++i) {
        nm_config.copy[i].node_count = 1;
        strcpy(nm_config.copy[i].nodes_text, "0");
    }
}

static bool placement_is_refused(void) {
    char *page = memory(PAGE);
    void *pages[] = {page};
    int status[1];
    *page = 1;
    int error = nm_move_pages(1, pages, NULL, status);
    munmap(page, PAGE);
    return error != 0 || status[0] != 0;
}

static struct nm_table *table_of(const char *start, size_t bytes) {
    struct nm_table *table = nm_table_new(1, 0, nm_config.copies);
    table->weights[0].start = (uintptr_t)start;
    table->weights[0].bytes = bytes;
    nm_table_seal(table);
    return table;
}

static void weights_keep_their_bytes_and_are_asked_for_afterwards(void) {
    if (placement_is_refused()) return;
    configure(1, false);
    char *model = memory(8 * MIB), *weight = model + 100; /* in the middle of a page */
    for (size_t i = 0; i < 8 * MIB; ++i) model[i] = (char)(i * 7);
    struct nm_table *table = table_of(weight, 4 * MIB);
    bool is_new[] = {true};
    CHECK(strcmp(nm_interleave(table, is_new), "") == 0);
    CHECK(table->weights[0].state == NM_WEIGHT_INTERLEAVED);
    CHECK(table->weights[0].local_256[0] == 256);
    for (size_t i = 0; i < 8 * MIB; ++i) CHECK(model[i] == (char)(i * 7));
    nm_table_free(table);
    munmap(model, 8 * MIB);
}

static void what_the_table_knew_is_left_alone(void) {
    configure(1, false);
    char *model = memory(MIB);
    struct nm_table *table = table_of(model, MIB);
    bool is_new[] = {false};
    CHECK(strcmp(nm_interleave(table, is_new), "") == 0);
    CHECK(table->weights[0].state == NM_WEIGHT_REFUSED);
    nm_table_free(table);
    munmap(model, MIB);
}

static void pages_that_are_not_spread_are_not_called_even(void) {
    if (placement_is_refused()) return;
    configure(2, false); /* both parts on node 0: each would have all */
    char *model = memory(4 * MIB);
    memset(model, 'w', 4 * MIB); /* what was only read is on no node */
    struct nm_table *table = table_of(model, 4 * MIB);
    bool is_new[] = {true};
    nm_interleave(table, is_new);
    CHECK(table->weights[0].local_256[0] == 256 && table->weights[0].local_256[1] == 256);
    CHECK(times_said("interleave: of the sampled pages of weights 100 % on node 0, 100 % on") == 1);
    CHECK(times_said("; pages of 4 MiB were moved in ") == 1);
    nm_table_free(table);
    munmap(model, 4 * MIB);
}

/* One page of 1040 is on no node: nobody has touched it. */
static void nearly_all_pages_are_not_called_all(void) {
    enum { FEW = 16 * PAGE };
    if (placement_is_refused()) return;
    configure(2, false);
    char *model = memory(4 * MIB + FEW), *few = model + 4 * MIB;
    CHECK(madvise(few, FEW, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
    memset(model, 'w', 4 * MIB + FEW - PAGE);
    struct nm_table *table = nm_table_new(2, 0, nm_config.copies);
    table->weights[0].start = (uintptr_t)model;
    table->weights[0].bytes = 4 * MIB;
    table->weights[1].start = (uintptr_t)few;
    table->weights[1].bytes = FEW;
    nm_table_seal(table);
    bool is_new[] = {true, true};
    nm_interleave(table, is_new);
    CHECK(times_said("of the sampled pages of weights 99.9 % on node 0, 99.9 % on") == 1);
    nm_table_free(table);
    munmap(model, 4 * MIB + FEW);
}

static void a_rehearsal_places_nothing(void) {
    configure(2, true);
    char *model = memory(MIB);
    nm_interleave_ahead((uintptr_t)model, MIB);
    struct nm_table *table = table_of(model, MIB);
    bool is_new[] = {true};
    CHECK(strcmp(nm_interleave(table, is_new), "a rehearsal has no nodes to spread pages over") ==
          0);
    CHECK(table->weights[0].state == NM_WEIGHT_REFUSED);
    nm_table_free(table);
    munmap(model, MIB);
}

static int policy_of(void *page) {
    int mode = -1;
    enum { MPOL_F_ADDR = 2 };
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, page, MPOL_F_ADDR) == 0 ? mode : -1;
}

static void the_policy_of_a_buffer_goes_with_it(void) {
    configure(1, false);
    char *model = memory(4 * PAGE);
    nm_interleave_ahead((uintptr_t)model + 10, 3 * PAGE);
    int before = policy_of(model), within = policy_of(model + PAGE);
    if (within == NM_MPOL_INTERLEAVE) { /* else no policies here */
        CHECK(before != NM_MPOL_INTERLEAVE && policy_of(model + 3 * PAGE) == before);
        nm_interleave_undo((uintptr_t)model + 10, 3 * PAGE);
        CHECK(policy_of(model + PAGE) == before);
    }
    munmap(model, 4 * PAGE);
}

/* Of a buffer that shares its first and last page with others, whole pages alone. */
static void a_buffer_within_a_page_is_left_to_the_process_policy(void) {
    configure(1, false);
    char *model = memory(2 * PAGE);
    nm_interleave_ahead((uintptr_t)model + 10, PAGE);
    model[0] = model[2 * PAGE - 1] = 1;
    munmap(model, 2 * PAGE);
}

static void what_no_policy_spreads_ahead_is_said_to_be_moved_instead(void) {
    configure(1, false);
    nm_config.copy[0].nodes[0] = ABSENT;
    char *model = memory(4 * PAGE);
    nm_interleave_ahead((uintptr_t)model, 4 * PAGE);
    CHECK(times_said("weights are spread by moving their pages") == 1);
    CHECK(times_said("mbind: ") == 1);
    munmap(model, 4 * PAGE);
}

int main(void) {
    listen_to_the_shim();
    RUN(weights_keep_their_bytes_and_are_asked_for_afterwards);
    RUN(what_the_table_knew_is_left_alone);
    RUN(pages_that_are_not_spread_are_not_called_even);
    RUN(nearly_all_pages_are_not_called_all);
    RUN(a_rehearsal_places_nothing);
    RUN(the_policy_of_a_buffer_goes_with_it);
    RUN(a_buffer_within_a_page_is_left_to_the_process_policy);
    RUN(what_no_policy_spreads_ahead_is_said_to_be_moved_instead);
    return 0;
}
