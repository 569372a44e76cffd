#include "groups.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

/* One writer each, the thread; rows of threads that have ended go on counting for the next. */
static struct {
    _Atomic uint64_t local, other;
} reads[NM_MAX_THREADS][NM_MAX_GROUPS];

/* "blk.12.ffn_up.weight (view)" -> "blk.*.ffn_up.weight" */
static void generalise(const char *name, char *pattern, size_t room) {
    size_t at = 0;
    for (const char *c = name; *c != '\0' && *c != ' ' && at + 1 < room; ++c) {
        bool whole = isdigit((unsigned char)*c) && (c == name || c[-1] == '.');
        const char *end = c;
        while (whole && isdigit((unsigned char)*end)) ++end;
        whole = whole && (*end == '.' || *end == '\0');
        pattern[at++] = whole ? '*' : *c;
        if (whole) c = end - 1;
    }
    pattern[at] = '\0';
}

int nm_group_of(const char *name) {
    char pattern[sizeof nm_status->group[0].name];
    generalise(name, pattern, sizeof pattern);
    if (pattern[0] == '\0') return NM_NO_GROUP;
    for (int i = 0; i < NM_MAX_GROUPS; ++i) {
        char *there = nm_status->group[i].name;
        if (there[0] == '\0') {
            nm_status_begin();
            snprintf(there, sizeof pattern, "%s", i == NM_MAX_GROUPS - 1 ? "*" : pattern);
            nm_status_end();
        }
        if (i == NM_MAX_GROUPS - 1 || strcmp(there, pattern) == 0) return i;
    }
    return NM_NO_GROUP;
}

static void add(_Atomic uint64_t *to, uint64_t value) {
    uint64_t before = atomic_load_explicit(to, memory_order_relaxed);
    atomic_store_explicit(to, before + value, memory_order_relaxed);
}

void nm_group_read(const struct nm_status_thread *thread, int group, size_t local, size_t other) {
    size_t row = (size_t)((uintptr_t)thread - (uintptr_t)nm_status->thread) / sizeof *thread;
    if (group == NM_NO_GROUP || row >= NM_MAX_THREADS) return; /* counted for nobody */
    add(&reads[row][group].local, local);
    add(&reads[row][group].other, other);
}

void nm_groups_sum(void) {
    uint32_t rows = __atomic_load_n(&nm_status->threads, __ATOMIC_RELAXED);
    nm_status_begin();
    for (int group = 0; group < NM_MAX_GROUPS; ++group) {
        struct nm_status_group *shown = &nm_status->group[group];
        shown->local_bytes = shown->other_bytes = 0;
        for (uint32_t row = 0; row < rows; ++row) {
            shown->local_bytes +=
                atomic_load_explicit(&reads[row][group].local, memory_order_relaxed);
            shown->other_bytes +=
                atomic_load_explicit(&reads[row][group].other, memory_order_relaxed);
        }
    }
    nm_status_end();
}

void nm_groups_tell(const struct nm_table *table) {
    for (int group = 0; group < NM_MAX_GROUPS; ++group)
        nm_status->group[group].tensors = nm_status->group[group].bytes = 0;
    for (size_t i = 0; i < table->count; ++i) {
        int group = table->weights[i].group;
        if (group == NM_NO_GROUP) continue;
        ++nm_status->group[group].tensors;
        nm_status->group[group].bytes += table->weights[i].bytes;
    }
}
