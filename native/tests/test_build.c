/* From buffers and candidates to replicas, in a rehearsal: what is copied, kept, refreshed, freed.
 */
#include <string.h>
#include <sys/mman.h>

#include "build.h"
#include "check.h"
#include "config.h"
#include "registry.h"
#include "status.h"

enum { MIB = 1 << 20 };

static char *memory(size_t bytes) {
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    for (size_t i = 0; i < bytes; i += 64) start[i] = (char)(i / 64 * 7 + 1);
    return start;
}

static void rehearse(bool copy_home) {
    memset(&nm_config, 0, sizeof nm_config);
    nm_config.active = true;
    nm_config.rehearsal = nm_config.copies = 2;
    nm_config.home_copy = 0;
    nm_config.min_bytes = MIB;
    nm_config.copy_home = copy_home;
    for (int i = 0; i < 2; ++i) {
        nm_config.copy[i].node_count = 1;
        nm_config.copy[i].nodes[0] = i;
    }
}

static struct nm_candidate candidate(const char *start, size_t bytes, bool by_expert) {
    return (struct nm_candidate){
        .start = (uintptr_t)start, .bytes = bytes, .by_expert = by_expert, .token_bytes = bytes};
}

static void build(const char *start, size_t bytes, bool by_expert) {
    struct nm_candidate one = candidate(start, bytes, by_expert);
    nm_build(&one, 1, true, "");
}

static struct nm_weight *weight_at(const char *address) {
    struct nm_table *table = atomic_load(&nm_table);
    return table == NULL ? NULL : nm_table_find(table, (uintptr_t)address);
}

static void home_reads_the_primary_and_the_other_node_a_replica(void) {
    rehearse(false);
    char *model = memory(8 * MIB);
    nm_registry_add_buffer(model, model, 8 * MIB, true);
    build(model + 64, 3 * MIB, false);
    struct nm_weight *weight = weight_at(model + 64);
    CHECK(weight != NULL && weight->state == NM_WEIGHT_MIRRORED);
    CHECK(weight->delta[0] == 0 && weight->delta[1] != 0);
    CHECK(memcmp(model + 64, model + 64 + weight->delta[1], 3 * MIB) == 0);
    CHECK(((uintptr_t)(model + 64) + (uintptr_t)weight->delta[1]) % 64 ==
          (uintptr_t)(model + 64) % 64);
    CHECK(nm_status->gemm_bytes == 3 * MIB && nm_status->mirrored_bytes == 3 * MIB);
    CHECK(nm_status->copy[0].role == NM_PRIMARY && nm_status->copy[1].role == NM_REPLICA);
    CHECK(nm_status->state == NM_MIRRORED);
    nm_registry_drop_buffer(model);
    CHECK(weight_at(model + 64) == NULL && nm_registry.arenas == NULL);
    CHECK(nm_status->state == NM_FREED && nm_status->mirrored_bytes == 3 * MIB);
    munmap(model, 8 * MIB);
}

static void copy_home_gives_home_a_replica_too(void) {
    rehearse(true);
    char *model = memory(4 * MIB);
    nm_registry_add_buffer(model, model, 4 * MIB, true);
    build(model, 4 * MIB, true);
    struct nm_weight *weight = weight_at(model);
    CHECK(weight->delta[0] != 0 && weight->delta[1] != 0 && weight->delta[0] != weight->delta[1]);
    CHECK(nm_status->copy[0].role == NM_REPLICA);
    nm_registry_drop_buffer(model);
    munmap(model, 4 * MIB);
}

static void weights_below_the_minimum_stay_where_they_are(void) {
    rehearse(false);
    char *model = memory(8 * MIB);
    nm_registry_add_buffer(model, model, 8 * MIB, true);
    struct nm_candidate list[] = {candidate(model, MIB, false),
                                  candidate(model + 6 * MIB, MIB - 1, false)};
    nm_build(list, 2, true, "");
    CHECK(weight_at(model)->state == NM_WEIGHT_MIRRORED);
    CHECK(weight_at(model + 6 * MIB)->state == NM_WEIGHT_SMALL);
    CHECK(nm_status->small_bytes == MIB - 1 && nm_status->state == NM_MIRRORED);
    nm_registry_drop_buffer(model);
    munmap(model, 8 * MIB);
}

static void weights_that_come_later_join_the_arena_that_is_there(void) {
    rehearse(false);
    char *model = memory(8 * MIB);
    nm_registry_add_buffer(model, model, 8 * MIB, true);
    build(model, 2 * MIB, false);
    struct nm_arena *arena = nm_registry.arenas;
    build(model + 4 * MIB, 2 * MIB, false);
    CHECK(nm_registry.arenas == arena && arena->next == NULL);
    CHECK(weight_at(model)->delta[1] != 0 && weight_at(model + 4 * MIB)->delta[1] != 0);
    CHECK(nm_status->gemm_bytes == 4 * MIB && nm_status->gemm_tensors == 2);
    nm_registry_drop_buffer(model);
    munmap(model, 8 * MIB);
}

static size_t resident(const char *start, size_t bytes) {
    static unsigned char pages[16 * MIB / 4096];
    size_t count = 0;
    CHECK(mincore((void *)start, bytes, pages) == 0);
    for (size_t i = 0; i < bytes / 4096; ++i) count += pages[i] & 1;
    return count * 4096;
}

/* Tried again, since khugepaged may come by and make a huge page of its end. */
static void a_replica_takes_no_more_memory_than_its_weights_and_a_page(void) {
    enum { FIRST = 5 * MIB / 2, ALL = FIRST + MIB, SLACK = 8192 };
    size_t least = SIZE_MAX;
    for (int i = 0; i < 5 && least > ALL + SLACK; ++i) {
        rehearse(false);
        char *model = memory(8 * MIB);
        nm_registry_add_buffer(model, model, 8 * MIB, true);
        build(model, FIRST, false);
        build(model + 4 * MIB, MIB, false); /* the second one goes on where the first ended */
        const struct nm_arena *arena = nm_registry.arenas;
        CHECK(arena->next == NULL && arena->bytes <= 16 * MIB);
        size_t now = resident(arena->start, arena->bytes);
        least = now < least ? now : least;
        CHECK(memcmp(model, model + weight_at(model)->delta[1], FIRST) == 0);
        nm_registry_drop_buffer(model);
        munmap(model, 8 * MIB);
    }
    CHECK(least >= ALL && least <= ALL + SLACK);
}

static void a_budget_takes_dense_weights_before_experts(void) {
    rehearse(false);
    nm_config.budget_bytes = 3 * MIB;
    char *model = memory(8 * MIB);
    nm_registry_add_buffer(model, model, 8 * MIB, true);
    struct nm_candidate list[] = {candidate(model, 2 * MIB, true),
                                  candidate(model + 2 * MIB, 2 * MIB, false),
                                  candidate(model + 4 * MIB, MIB, true)};
    nm_build(list, 3, true, "");
    CHECK(weight_at(model)->state == NM_WEIGHT_REFUSED && weight_at(model)->delta[1] == 0);
    CHECK(weight_at(model + 2 * MIB)->state == NM_WEIGHT_MIRRORED);
    CHECK(weight_at(model + 4 * MIB)->state == NM_WEIGHT_MIRRORED);
    CHECK(nm_status->state == NM_PARTIAL && nm_status->refused_bytes == 2 * MIB);
    CHECK(strstr(nm_status->reason, "the budget leaves 3 MiB") != NULL);
    CHECK(strstr(nm_status->reason, "raise --budget by 2 MiB for all of it") != NULL);
    build(model + 5 * MIB, MIB, false);
    CHECK(weight_at(model + 5 * MIB)->state == NM_WEIGHT_REFUSED); /* it is used up */
    nm_registry_drop_buffer(model);
    munmap(model, 8 * MIB);
}

static void a_budget_takes_first_what_a_token_reads_most_of(void) {
    rehearse(false);
    nm_config.budget_bytes = 4 * MIB;
    char *model = memory(8 * MIB);
    nm_registry_add_buffer(model, model, 8 * MIB, true);
    struct nm_candidate list[] = {candidate(model, 2 * MIB, true),
                                  candidate(model + 2 * MIB, 2 * MIB, true),
                                  candidate(model + 4 * MIB, 2 * MIB, false)};
    list[0].token_bytes = MIB / 4;
    list[1].token_bytes = MIB / 2;
    nm_build(list, 3, true, "");
    CHECK(weight_at(model)->state == NM_WEIGHT_REFUSED);
    CHECK(weight_at(model + 2 * MIB)->state == NM_WEIGHT_MIRRORED);
    CHECK(weight_at(model + 4 * MIB)->state == NM_WEIGHT_MIRRORED);
    CHECK(nm_status->token_bytes == 2 * MIB + MIB / 2 + MIB / 4);
    CHECK(nm_status->token_mirrored_bytes == 2 * MIB + MIB / 2);
    nm_registry_drop_buffer(model);
    munmap(model, 8 * MIB);
}

static void without_seams_weights_are_booked_and_not_copied(void) {
    rehearse(false);
    char *model = memory(2 * MIB);
    nm_registry_add_buffer(model, model, 2 * MIB, true);
    struct nm_candidate one = candidate(model, 2 * MIB, false);
    nm_build(&one, 1, false, "no seam");
    CHECK(weight_at(model)->state == NM_WEIGHT_REFUSED && nm_registry.arenas == NULL);
    CHECK(nm_status->state == NM_OFF && strcmp(nm_status->reason, "no seam") == 0);
    nm_registry_drop_buffer(model);
    munmap(model, 2 * MIB);
}

static void a_reason_lasts_as_long_as_what_it_is_the_reason_of(void) {
    rehearse(false);
    char *first = memory(2 * MIB), *second = memory(2 * MIB);
    nm_registry_add_buffer(first, first, 2 * MIB, true);
    nm_registry_add_buffer(second, second, 2 * MIB, true);
    struct nm_candidate one = candidate(first, 2 * MIB, true);
    nm_build(&one, 1, false, "no seam");
    build(second, 2 * MIB, false); /* has none of its own */
    CHECK(nm_status->state == NM_PARTIAL && strcmp(nm_status->reason, "no seam") == 0);
    nm_registry_drop_buffer(first);
    build(second, 2 * MIB, false); /* what a graph brings: nothing new */
    CHECK(nm_status->state == NM_MIRRORED && nm_status->reason[0] == '\0');
    nm_registry_drop_buffer(second);
    munmap(first, 2 * MIB);
    munmap(second, 2 * MIB);
}

static void the_reason_of_a_freed_model_is_not_that_of_the_next(void) {
    rehearse(false);
    char *model = memory(2 * MIB);
    nm_registry_add_buffer(model, model, 2 * MIB, true);
    struct nm_candidate one = candidate(model, 2 * MIB, false);
    nm_build(&one, 1, false, "no seam");
    nm_registry_drop_buffer(model);
    CHECK(nm_status->state == NM_FREED && strcmp(nm_status->reason, "no seam") == 0);
    nm_registry_add_buffer(model, model, 2 * MIB, true);
    one = candidate(model, 2 * MIB, false);
    nm_build(&one, 1, false, "");
    CHECK(nm_status->state == NM_OFF && nm_status->reason[0] == '\0');
    nm_registry_drop_buffer(model);
    munmap(model, 2 * MIB);
}

static void a_write_to_the_primary_reaches_the_replica(void) {
    rehearse(false);
    char *plain = memory(2 * MIB), *packed = memory(2 * MIB);
    nm_registry_add_buffer(plain, plain, 2 * MIB, true);
    nm_registry_add_buffer(packed, packed, 2 * MIB, false);
    struct nm_candidate list[] = {candidate(plain, 2 * MIB, false),
                                  candidate(packed, 2 * MIB, false)};
    nm_build(list, 2, true, "");
    memset(plain + 100, 'x', 50);
    nm_registry_refresh(plain + 100, 50);
    memset(packed + 5000, 'y', 50); /* what a set of other bytes did to a repacked layout */
    nm_registry_refresh(packed, 10);
    CHECK(memcmp(plain, plain + weight_at(plain)->delta[1], 2 * MIB) == 0);
    CHECK(memcmp(packed, packed + weight_at(packed)->delta[1], 2 * MIB) == 0);
    nm_registry_drop_buffer(plain);
    nm_registry_drop_buffer(packed);
    munmap(plain, 2 * MIB);
    munmap(packed, 2 * MIB);
}

static void a_freed_model_leaves_the_figures_until_the_next_graph(void) {
    rehearse(false);
    char *first = memory(2 * MIB), *second = memory(2 * MIB);
    nm_registry_add_buffer(first, first, 2 * MIB, true);
    nm_registry_add_buffer(second, second, 2 * MIB, true);
    build(first, 2 * MIB, false);
    build(second, 2 * MIB, false);
    nm_registry_drop_buffer(first);
    CHECK(nm_status->state == NM_MIRRORED && nm_status->gemm_bytes == 4 * MIB);
    build(second, 2 * MIB, false); /* what a graph on the second model brings: nothing new */
    CHECK(nm_status->gemm_bytes == 2 * MIB && nm_status->mirrored_bytes == 2 * MIB);
    nm_registry_drop_buffer(second);
    CHECK(nm_status->state == NM_FREED && nm_status->gemm_bytes == 2 * MIB);
    munmap(first, 2 * MIB);
    munmap(second, 2 * MIB);
}

static void loading_and_freeing_fifty_times_leaves_nothing(void) {
    rehearse(true);
    for (int round = 0; round < 50; ++round) {
        char *model = memory(2 * MIB);
        nm_registry_add_buffer(model, model, 2 * MIB, true);
        build(model, 2 * MIB, false);
        CHECK(nm_registry.arenas != NULL);
        nm_registry_drop_buffer(model);
        CHECK(nm_registry.arenas == NULL && nm_registry.buffer_count == 0);
        CHECK(atomic_load(&nm_registry.retired) == NULL);
        munmap(model, 2 * MIB);
    }
}

static void overlapping_buffers_of_one_file_are_both_known(void) {
    rehearse(false);
    char *file = memory(8 * MIB);
    nm_registry_add_buffer(file, file, 6 * MIB, true);
    nm_registry_add_buffer(file + 1, file + 2 * MIB, 6 * MIB, true);
    build(file + 3 * MIB, 2 * MIB, false);
    build(file + 6 * MIB, 2 * MIB, false);
    CHECK(weight_at(file + 6 * MIB)->state == NM_WEIGHT_MIRRORED);
    CHECK(atomic_load(&nm_table)->range_count == 1);
    nm_registry_drop_buffer(file);
    CHECK(weight_at(file + 3 * MIB) != NULL); /* the other buffer holds it too */
    nm_registry_drop_buffer(file + 1);
    CHECK(weight_at(file + 3 * MIB) == NULL && nm_registry.arenas == NULL);
    munmap(file, 8 * MIB);
}

static void a_handle_used_again_is_a_new_buffer(void) {
    rehearse(false);
    char *first = memory(2 * MIB), *second = memory(2 * MIB);
    nm_registry_add_buffer(&nm_config, first, 2 * MIB, true);
    build(first, 2 * MIB, false);
    nm_registry_add_buffer(&nm_config, first, 2 * MIB, true); /* said twice */
    CHECK(weight_at(first) != NULL && nm_registry.buffer_count == 1);
    nm_registry_add_buffer(&nm_config, second, 2 * MIB, true);
    CHECK(weight_at(first) == NULL && nm_registry.buffer_count == 1);
    nm_registry_drop_buffer(&nm_config);
    munmap(first, 2 * MIB);
    munmap(second, 2 * MIB);
}

static void a_weight_that_grows_leaves_its_first_replica_to_graphs_in_flight_alone(void) {
    rehearse(true);
    nm_config.budget_bytes = 5 * MIB;
    char *model = memory(8 * MIB);
    nm_registry_add_buffer(model, model, 8 * MIB, true);
    build(model, 2 * MIB, false);
    const char *before = model + weight_at(model)->delta[1];
    nm_registry_enter(); /* a graph that has looked it up */
    build(model, 3 * MIB, false);
    CHECK(weight_at(model)->bytes == 3 * MIB && memcmp(before, model, 2 * MIB) == 0);
    nm_registry_leave();
    build(model + 4 * MIB, 2 * MIB, false); /* the budget is not used up by what is gone */
    CHECK(weight_at(model + 4 * MIB)->state == NM_WEIGHT_MIRRORED);
    nm_registry_drop_buffer(model);
    CHECK(nm_registry.arenas == NULL && atomic_load(&nm_registry.retired_arenas) == NULL);
    munmap(model, 8 * MIB);
}

/* Between the look at a graph and the build another thread's graph may show that a buffer, which
 * nobody had marked, holds no weights: what is built then would never be given back. */
static void what_lies_in_no_buffer_any_more_is_left_alone(void) {
    rehearse(true);
    char *model = memory(4 * MIB), *forgotten = memory(2 * MIB);
    nm_registry_add_buffer(model, model, 4 * MIB, true);
    struct nm_candidate list[] = {candidate(forgotten, 2 * MIB, false),
                                  candidate(model, 2 * MIB, false)};
    nm_build(list, 2, true, "");
    CHECK(weight_at(forgotten) == NULL && weight_at(model)->state == NM_WEIGHT_MIRRORED);
    nm_registry_drop_buffer(model);
    CHECK(nm_registry.arenas == NULL);
    munmap(model, 4 * MIB);
    munmap(forgotten, 2 * MIB);
}

static void empty_buffers_of_a_probing_engine_are_ignored(void) {
    nm_registry_add_buffer(&nm_config, NULL, 0, true);
    nm_registry_add_buffer(&nm_config, &nm_config, 0, true);
    nm_registry_add_buffer(&nm_config, NULL, 10, true);
    CHECK(nm_registry.buffer_count == 0);
    nm_registry_drop_buffer(&nm_config);
}

int main(void) {
    RUN(home_reads_the_primary_and_the_other_node_a_replica);
    RUN(copy_home_gives_home_a_replica_too);
    RUN(weights_below_the_minimum_stay_where_they_are);
    RUN(weights_that_come_later_join_the_arena_that_is_there);
    RUN(a_replica_takes_no_more_memory_than_its_weights_and_a_page);
    RUN(a_budget_takes_dense_weights_before_experts);
    RUN(a_budget_takes_first_what_a_token_reads_most_of);
    RUN(without_seams_weights_are_booked_and_not_copied);
    RUN(a_reason_lasts_as_long_as_what_it_is_the_reason_of);
    RUN(the_reason_of_a_freed_model_is_not_that_of_the_next);
    RUN(a_write_to_the_primary_reaches_the_replica);
    RUN(a_freed_model_leaves_the_figures_until_the_next_graph);
    RUN(loading_and_freeing_fifty_times_leaves_nothing);
    RUN(overlapping_buffers_of_one_file_are_both_known);
    RUN(a_handle_used_again_is_a_new_buffer);
    RUN(a_weight_that_grows_leaves_its_first_replica_to_graphs_in_flight_alone);
    RUN(what_lies_in_no_buffer_any_more_is_left_alone);
    RUN(empty_buffers_of_a_probing_engine_are_ignored);
    return 0;
}
