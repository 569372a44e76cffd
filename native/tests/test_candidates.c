/* Weights from graphs: sorted, merged, told from known ones. */
#include "candidates.h"
#include "check.h"

static void views_of_one_tensor_become_one_weight(void) {
    struct nm_candidate list[] = {{300, 10, false, 0, 0},
                                  {100, 50, false, 0, 0},
                                  {120, 80, true, 0, 0},
                                  {100, 50, false, 0, 0}};
    size_t count = nm_candidates_reduce(list, 4, NULL);
    CHECK(count == 2);
    CHECK(list[0].start == 100 && list[0].bytes == 100 && !list[0].by_expert);
    CHECK(list[1].start == 300 && list[1].bytes == 10);
}

static void neighbours_stay_two_weights(void) {
    struct nm_candidate list[] = {{100, 50, false, 0, 0}, {150, 50, false, 0, 0}};
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
    struct nm_candidate list[] = {
        {100, 100, false, 0, 0}, {120, 10, false, 0, 0}, {250, 10, false, 0, 0}};
    CHECK(nm_candidates_reduce(list, 3, table) == 1 && list[0].start == 250);
    nm_table_free(table);
}

static void a_larger_view_grows_over_the_known_part(void) {
    struct nm_table *table = known(100, 100);
    struct nm_candidate list[] = {{150, 100, false, 0, 0}, {245, 20, false, 0, 0}};
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
