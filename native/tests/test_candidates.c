/* Weights from graphs: sorted, merged, told from known ones. */
#include "candidates.h"
#include "check.h"

static struct nm_candidate read_whole(uintptr_t start, size_t bytes, bool by_expert) {
    return (struct nm_candidate){
        .start = start, .bytes = bytes, .by_expert = by_expert, .token_bytes = bytes};
}

static void views_of_one_tensor_become_one_weight(void) {
    struct nm_candidate list[] = {read_whole(300, 10, false), read_whole(100, 50, false),
                                  read_whole(120, 80, true), read_whole(100, 50, false)};
    size_t count = nm_candidates_reduce(list, 4, NULL);
    CHECK(count == 2);
    CHECK(list[0].start == 100 && list[0].bytes == 100 && !list[0].by_expert);
    CHECK(list[0].token_bytes == 180); /* each of the ops that see it reads its part */
    CHECK(list[1].start == 300 && list[1].bytes == 10);
}

static void neighbours_stay_two_weights(void) {
    struct nm_candidate list[] = {read_whole(100, 50, false), read_whole(150, 50, false)};
    CHECK(nm_candidates_reduce(list, 2, NULL) == 2);
}

static struct nm_table *known(uintptr_t start, size_t bytes) {
    struct nm_table *table = nm_table_new(1, 0, 1);
    table->weights[0].start = start;
    table->weights[0].bytes = bytes;
    nm_table_seal(table);
    return table;
}

static void what_is_known_is_no_news(void) {
    struct nm_table *table = known(100, 100);
    struct nm_candidate list[] = {read_whole(100, 100, false), read_whole(120, 10, false),
                                  read_whole(250, 10, false)};
    CHECK(nm_candidates_reduce(list, 3, table) == 1 && list[0].start == 250);
    nm_table_free(table);
}

static void a_larger_view_grows_over_the_known_part(void) {
    struct nm_table *table = known(100, 100);
    struct nm_candidate list[] = {read_whole(150, 100, false), read_whole(245, 20, false)};
    CHECK(nm_candidates_reduce(list, 2, table) == 1);
    CHECK(list[0].start == 100 && nm_candidate_end(&list[0]) == 265);
    nm_table_free(table);
}

int main(void) {
    RUN(views_of_one_tensor_become_one_weight);
    RUN(neighbours_stay_two_weights);
    RUN(what_is_known_is_no_news);
    RUN(a_larger_view_grows_over_the_known_part);
    return 0;
}
