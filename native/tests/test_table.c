/* The lookup, against a plain linear search. */
#include "check.h"
#include "table.h"

static struct nm_table *table_of(size_t count, uintptr_t first, size_t step, size_t bytes) {
    struct nm_table *table = nm_table_new(count, 1, 2);
    CHECK(table != NULL);
    for (size_t i = 0; i < count; ++i) {
        table->weights[i].start = first + i * step;
        table->weights[i].bytes = bytes;
    }
    table->ranges[0] = (struct nm_address_range){first, first + count * step};
    nm_table_seal(table);
    return table;
}

static const struct nm_weight *linear(const struct nm_table *table, uintptr_t address) {
    for (size_t i = 0; i < table->count; ++i)
        if (address >= table->weights[i].start &&
            address < table->weights[i].start + table->weights[i].bytes)
            return &table->weights[i];
    return NULL;
}

static void every_address_finds_its_weight_or_none(void) {
    for (size_t count = 1; count < 40; ++count) {
        struct nm_table *table = table_of(count, 1000, 10, 7);
        for (uintptr_t address = 990; address < 1000 + count * 10 + 10; ++address)
            CHECK(nm_table_find(table, address) == linear(table, address));
        nm_table_free(table);
    }
}

static void an_empty_table_finds_nothing(void) {
    struct nm_table *table = nm_table_new(0, 0, 2);
    nm_table_seal(table);
    CHECK(nm_table_find(table, 0) == NULL && nm_table_find(table, 1) == NULL);
    CHECK(!nm_table_in_buffer(table, 1));
    CHECK(nm_table_first_after(table, 0) == 0);
    nm_table_free(table);
}

static void the_first_weight_after_an_address_may_contain_it(void) {
    struct nm_table *table = table_of(3, 100, 100, 50);
    CHECK(nm_table_first_after(table, 0) == 0 && nm_table_first_after(table, 149) == 0);
    CHECK(nm_table_first_after(table, 150) == 1 && nm_table_first_after(table, 349) == 2);
    CHECK(nm_table_first_after(table, 350) == 3);
    nm_table_free(table);
}

static void a_gap_inside_a_buffer_is_told_from_outside(void) {
    struct nm_table *table = table_of(3, 100, 100, 50);
    CHECK(nm_table_in_buffer(table, 160) && !nm_table_in_buffer(table, 99));
    CHECK(!nm_table_in_buffer(table, 400));
    nm_table_free(table);
}

static void a_copied_weight_keeps_its_own_deltas(void) {
    struct nm_table *from = table_of(2, 100, 100, 50), *to = nm_table_new(1, 0, 2);
    from->weights[1].delta[0] = 11;
    from->weights[1].delta[1] = 22;
    atomic_store(&from->weights[1].dead, true);
    nm_table_copy_weight(to, 0, &from->weights[1]);
    from->weights[1].delta[1] = 0;
    CHECK(to->weights[0].start == 200 && to->weights[0].delta[1] == 22);
    CHECK(atomic_load(&to->weights[0].dead));
    nm_table_free(from);
    nm_table_free(to);
}

int main(void) {
    RUN(every_address_finds_its_weight_or_none);
    RUN(an_empty_table_finds_nothing);
    RUN(the_first_weight_after_an_address_may_contain_it);
    RUN(a_gap_inside_a_buffer_is_told_from_outside);
    RUN(a_copied_weight_keeps_its_own_deltas);
    return 0;
}
