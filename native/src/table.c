#include "table.h"

#include <stdlib.h>

struct nm_table *nm_table_new(size_t count, size_t range_count, int copies) {
    struct nm_table *table = calloc(1, sizeof *table + count * (size_t)copies * sizeof(ptrdiff_t));
    if (table == NULL) return NULL;
    table->count = table->room = count;
    table->copies = copies;
    table->range_count = range_count;
    table->starts = calloc(count + 1, sizeof *table->starts);
    table->weights = calloc(count + 1, sizeof *table->weights);
    table->ranges = calloc(range_count + 1, sizeof *table->ranges);
    table->local = calloc(count * (size_t)copies + 1, sizeof *table->local);
    if (table->starts == NULL || table->weights == NULL || table->ranges == NULL ||
        table->local == NULL) {
        nm_table_free(table);
        return NULL;
    }
    for (size_t i = 0; i < count; ++i) {
        table->weights[i].delta = &table->deltas[i * (size_t)copies];
        table->weights[i].local_256 = &table->local[i * (size_t)copies];
    }
    return table;
}

void nm_table_free(struct nm_table *table) {
    if (table == NULL) return;
    for (size_t i = 0; table->weights != NULL && i < table->room; ++i)
        nm_slices_leave(table->weights[i].slices);
    free(table->starts);
    free(table->weights);
    free(table->ranges);
    free(table->local);
    free(table);
}

void nm_table_copy_weight(struct nm_table *table, size_t index, const struct nm_weight *from) {
    struct nm_weight *to = &table->weights[index];
    to->start = from->start;
    to->bytes = from->bytes;
    to->state = atomic_load(&from->state);
    to->slab_bytes = from->slab_bytes;
    to->rows = from->rows;
    to->token_bytes = from->token_bytes;
    to->group = from->group;
    to->by_expert = from->by_expert;
    to->sliceable = from->sliceable;
    to->slices = from->slices;
    if (to->slices != NULL) ++to->slices->users;
    to->host = from->host;
    atomic_store(&to->stolen, atomic_load(&from->stolen));
    atomic_store(&to->dead, atomic_load(&from->dead));
    for (int copy = 0; copy < table->copies; ++copy) {
        to->delta[copy] = from->delta[copy];
        to->local_256[copy] = from->local_256[copy];
    }
}

void nm_table_seal(struct nm_table *table) {
    for (size_t i = 0; i < table->count; ++i) table->starts[i] = table->weights[i].start;
    if (table->count == 0) return;
    const struct nm_weight *last = &table->weights[table->count - 1];
    table->low = table->weights[0].start;
    table->high = last->start + last->bytes;
}

size_t nm_table_first_after(const struct nm_table *table, uintptr_t address) {
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->weights[middle].start + table->weights[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool nm_table_in_buffer(const struct nm_table *table, uintptr_t address) {
    size_t low = 0, high = table->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->range_count && table->ranges[low].start <= address;
}
