/* Observed reads by groups of tensors: their names, and sums over threads. */
#include <string.h>

#include "check.h"
#include "groups.h"
#include "status.h"

static const struct nm_status_group *group(int index) { return &nm_status->group[index]; }

static void numbers_in_a_name_do_not_make_another_group(void) {
    int up = nm_group_of("blk.0.ffn_up.weight");
    CHECK(nm_group_of("blk.12.ffn_up.weight") == up);
    CHECK(strcmp(group(up)->name, "blk.*.ffn_up.weight") == 0);
    CHECK(nm_group_of("blk.0.ffn_down.weight") != up);
    CHECK(nm_group_of("blk.0.ffn_up.weight (view)") == up);
}

static void numbers_that_are_a_part_of_a_word_stay(void) {
    int group_of_q8 = nm_group_of("enc.3.conv1.weight.0");
    CHECK(strcmp(group(group_of_q8)->name, "enc.*.conv1.weight.*") == 0);
}

static void a_tensor_without_a_name_has_no_group(void) {
    CHECK(nm_group_of("") == NM_NO_GROUP);
    nm_group_read(&nm_status->thread[0], NM_NO_GROUP, 1, 1);
}

static void reads_of_all_threads_are_added_up(void) {
    int down = nm_group_of("blk.0.ffn_down.weight");
    nm_status->threads = 3;
    nm_group_read(&nm_status->thread[0], down, 10, 1);
    nm_group_read(&nm_status->thread[2], down, 20, 2);
    nm_group_read(&nm_status->thread[2], down, 30, 3);
    struct nm_status_thread nobodys = {0};
    nm_group_read(&nobodys, down, 1000, 1000); /* of a thread beyond the page's room */
    nm_groups_sum();
    CHECK(group(down)->local_bytes == 60 && group(down)->other_bytes == 6);
}

static void tensors_and_bytes_are_those_of_the_table(void) {
    struct nm_table *table = nm_table_new(3, 0, 1);
    for (int i = 0; i < 3; ++i) {
        table->weights[i].start = 4096u * (unsigned)(i + 1);
        table->weights[i].bytes = 100;
        table->weights[i].group = nm_group_of(i < 2 ? "blk.7.ffn_up.weight" : "output.weight");
    }
    nm_groups_tell(table);
    int up = nm_group_of("blk.1.ffn_up.weight");
    CHECK(group(up)->tensors == 2 && group(up)->bytes == 200);
    nm_table_free(table);
}

static void more_names_than_groups_share_the_last(void) {
    char name[] = "kind_A.weight";
    int last = 0;
    for (int i = 0; i < 2 * NM_MAX_GROUPS; ++i) {
        name[5] = (char)('A' + i);
        last = nm_group_of(name);
        CHECK(last >= 0 && last < NM_MAX_GROUPS);
    }
    CHECK(last == NM_MAX_GROUPS - 1 && strcmp(group(last)->name, "*") == 0);
}

int main(void) {
    RUN(numbers_in_a_name_do_not_make_another_group);
    RUN(numbers_that_are_a_part_of_a_word_stay);
    RUN(a_tensor_without_a_name_has_no_group);
    RUN(reads_of_all_threads_are_added_up);
    RUN(tensors_and_bytes_are_those_of_the_table);
    RUN(more_names_than_groups_share_the_last);
    return 0;
}
