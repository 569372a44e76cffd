#include "slices.h"

#include <stdlib.h>

struct nm_slices *nm_slices_new(size_t count, int copies, const struct nm_slices *from) {
    struct nm_slices *slices = calloc(1, sizeof *slices);
    if (slices == NULL) return NULL;
    *slices = (struct nm_slices){.users = 1, .count = count, .copies = copies};
    slices->wanted = calloc(count + 1, sizeof *slices->wanted);
    slices->reads = calloc(count + 1, sizeof *slices->reads);
    slices->delta = calloc(count * (size_t)copies + 1, sizeof *slices->delta);
    if (slices->wanted == NULL || slices->reads == NULL || slices->delta == NULL) {
        nm_slices_leave(slices);
        return NULL;
    }
    for (size_t i = 0; from != NULL && i < count; ++i)
        atomic_store(&slices->reads[i], atomic_load(&from->reads[i]));
    return slices;
}

void nm_slices_leave(struct nm_slices *slices) {
    if (slices == NULL || --slices->users > 0) return;
    free(slices->wanted);
    free(slices->reads);
    free(slices->delta);
    free(slices);
}

uint64_t nm_slices_reads(const struct nm_slices *slices) {
    uint64_t sum = 0;
    for (size_t i = 0; i < slices->count; ++i)
        sum += atomic_load_explicit(&slices->reads[i], memory_order_relaxed);
    return sum;
}

void nm_slices_forget_reads(struct nm_slices *slices) {
    for (size_t i = 0; i < slices->count; ++i)
        atomic_store_explicit(&slices->reads[i], 0, memory_order_relaxed);
}
