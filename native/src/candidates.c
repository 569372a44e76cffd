#include "candidates.h"

#include <stdlib.h>

static int by_start(const void *a, const void *b) {
    uintptr_t left = ((const struct nm_candidate *)a)->start;
    uintptr_t right = ((const struct nm_candidate *)b)->start;
    return left < right ? -1 : left > right;
}

/* Sorts, and merges what overlaps: views of one tensor are one weight. Returns the new count. */
static size_t merge_overlaps(struct nm_candidate *list, size_t count) {
    qsort(list, count, sizeof *list, by_start);
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        struct nm_candidate *last = kept > 0 ? &list[kept - 1] : NULL;
        if (last != NULL && list[i].start < nm_candidate_end(last)) {
            last->sliceable = last->sliceable && list[i].sliceable &&
                              list[i].start == last->start && list[i].bytes == last->bytes;
            uintptr_t end = nm_candidate_end(&list[i]) > nm_candidate_end(last)
                                ? nm_candidate_end(&list[i])
                                : nm_candidate_end(last);
            last->bytes = end - last->start;
            last->by_expert = last->by_expert && list[i].by_expert;
            last->token_bytes += list[i].token_bytes; /* each op reads its own */
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

static bool known_whole(const struct nm_table *table, const struct nm_candidate *c) {
    const struct nm_weight *weight = table == NULL ? NULL : nm_table_find(table, c->start);
    return weight != NULL && nm_candidate_end(c) <= weight->start + weight->bytes;
}

/* Leaves out what the table knows; grows a candidate over a weight that it only overlaps. */
static size_t keep_new(struct nm_candidate *list, size_t count, const struct nm_table *table) {
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        if (known_whole(table, &list[i])) continue;
        struct nm_candidate c = list[i];
        uintptr_t end = nm_candidate_end(&c);
        for (size_t k = table == NULL ? 0 : nm_table_first_after(table, c.start);
             table != NULL && k < table->count && table->weights[k].start < end; ++k) {
            const struct nm_weight *weight = &table->weights[k];
            c.token_bytes += weight->token_bytes;
            if (weight->start < c.start) c.start = weight->start;
            if (weight->start + weight->bytes > end) end = weight->start + weight->bytes;
        }
        if (c.bytes != end - c.start) c.sliceable = false;
        c.bytes = end - c.start;
        list[kept++] = c;
    }
    return kept;
}

size_t nm_candidates_reduce(struct nm_candidate *list, size_t count, const struct nm_table *table) {
    count = keep_new(list, merge_overlaps(list, count), table);
    return merge_overlaps(list, count); /* what grew may touch its neighbours */
}
