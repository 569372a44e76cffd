#include "registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config.h"
#include "events.h"
#include "filter.h"
#include "first_touch.h"
#include "interleave.h"
#include "lock.h"
#include "page_size.h"
#include "status.h"

struct nm_registry nm_registry = {.lock = NM_LOCK_INITIALIZER};
struct nm_table *_Atomic nm_table;
_Atomic bool nm_news;
_Atomic bool nm_stale;
static _Atomic unsigned graphs_in_flight;

struct nm_buffer *nm_registry_buffer_at(uintptr_t address) {
    for (size_t i = 0; i < nm_registry.buffer_count; ++i)
        if (address - nm_registry.buffers[i].start < nm_registry.buffers[i].bytes)
            return &nm_registry.buffers[i];
    return NULL;
}

static bool room_for_one_more(void) {
    if (nm_registry.buffer_count < nm_registry.buffer_room) return true;
    size_t room = nm_registry.buffer_room * 2 + 16;
    struct nm_buffer *grown = realloc(nm_registry.buffers, room * sizeof *grown);
    if (grown == NULL) return false;
    nm_registry.buffers = grown;
    nm_registry.buffer_room = room;
    return true;
}

static void no_huge_pages(const void *start, size_t bytes) {
    uintptr_t first = nm_page_at((uintptr_t)start);
    madvise((void *)first, (uintptr_t)start + bytes - first, MADV_NOHUGEPAGE);
}

bool nm_registry_find_buffer(const void *id, struct nm_buffer *found) {
    bool known = false;
    pthread_mutex_lock(&nm_registry.lock);
    for (size_t i = 0; i < nm_registry.buffer_count && !known; ++i) {
        known = nm_registry.buffers[i].id == id;
        if (known) *found = nm_registry.buffers[i];
    }
    pthread_mutex_unlock(&nm_registry.lock);
    return known;
}

static bool is_known(const void *id, const void *start, size_t bytes) {
    struct nm_buffer known;
    return nm_registry_find_buffer(id, &known) && known.start == (uintptr_t)start &&
           known.bytes == bytes;
}

/* A table that knows all buffers: a miss in a new one is news. */
static void republish(const struct nm_table *table) {
    struct nm_table *wider = nm_registry_new_table(table->count);
    if (wider == NULL) return;
    for (size_t i = 0; i < table->count; ++i) nm_table_copy_weight(wider, i, &table->weights[i]);
    nm_table_seal(wider);
    nm_registry_publish(wider);
    nm_registry_sweep();
}

void nm_registry_add_buffer(const void *id, const void *start, size_t bytes, bool host) {
    if (start == NULL || bytes == 0) return; /* engines probe with empty buffers */
    if (is_known(id, start, bytes)) return;
    nm_registry_drop_buffer(id); /* a handle used again: its first use has ended */
    pthread_mutex_lock(&nm_registry.lock);
    if (room_for_one_more()) {
        nm_registry.buffers[nm_registry.buffer_count++] =
            (struct nm_buffer){.id = id, .start = (uintptr_t)start, .bytes = bytes, .host = host};
        /* A huge page moves as a whole: rows of two nodes could not part (first_touch.h). */
        if (nm_config.shard && !nm_filter_noticed()) no_huge_pages(start, bytes);
        if (atomic_load(&nm_table) != NULL) republish(atomic_load(&nm_table));
        atomic_store_explicit(&nm_news, true, memory_order_release);
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_registry_describe_buffer(const void *id, bool doubtful, bool pinned) {
    pthread_mutex_lock(&nm_registry.lock);
    for (size_t i = 0; i < nm_registry.buffer_count; ++i) {
        if (nm_registry.buffers[i].id != id) continue;
        nm_registry.buffers[i].doubtful = doubtful;
        nm_registry.buffers[i].pinned = pinned;
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

bool nm_registry_pinned_at(uintptr_t address) {
    pthread_mutex_lock(&nm_registry.lock);
    const struct nm_buffer *buffer = nm_registry_buffer_at(address);
    bool pinned = buffer != NULL && buffer->pinned;
    pthread_mutex_unlock(&nm_registry.lock);
    return pinned;
}

const void *nm_registry_doubtful_at(uintptr_t address) {
    pthread_mutex_lock(&nm_registry.lock);
    const struct nm_buffer *buffer = nm_registry_buffer_at(address);
    const void *id = buffer != NULL && buffer->doubtful ? buffer->id : NULL;
    pthread_mutex_unlock(&nm_registry.lock);
    return id;
}

void nm_registry_release_piece(const char *replica, size_t bytes) {
    for (struct nm_arena **link = &nm_registry.arenas; *link != NULL; link = &(*link)->next) {
        struct nm_arena *arena = *link;
        if (replica < arena->start || replica >= arena->start + arena->bytes) continue;
        arena->live -= bytes;
        if (arena->live == 0) {
            *link = arena->next;
            arena->next = atomic_load(&nm_registry.retired_arenas);
            atomic_store(&nm_registry.retired_arenas, arena);
        }
        break;
    }
}

void nm_registry_release(const struct nm_weight *weight, int copies) {
    const char *start = (const char *)weight->start;
    const struct nm_slices *slices = weight->slices;
    for (int copy = 0; copy < copies; ++copy) {
        if (weight->delta[copy] != 0)
            nm_registry_release_piece(start + weight->delta[copy], weight->bytes);
        for (size_t i = 0; slices != NULL && i < slices->count; ++i) {
            ptrdiff_t delta = *nm_slice_delta(slices, i, copy);
            if (delta != 0)
                nm_registry_release_piece(start + i * weight->slab_bytes + delta,
                                          weight->slab_bytes);
        }
    }
}

/* What is retired goes unless a graph in flight may read it. A graph counts itself in before it
 * loads nm_table, and a table is retired after its successor was stored; both in sequential
 * consistency, so a graph that is not counted here sees the successor. */
void nm_registry_sweep(void) {
    if (atomic_load(&graphs_in_flight) != 0) return;
    struct nm_table *table = atomic_exchange(&nm_registry.retired, NULL);
    while (table != NULL) {
        struct nm_table *next = table->next_retired;
        nm_table_free(table);
        table = next;
    }
    struct nm_arena *arena = atomic_exchange(&nm_registry.retired_arenas, NULL);
    while (arena != NULL) {
        struct nm_arena *next = arena->next;
        nm_arena_free(arena);
        arena = next;
    }
}

void nm_registry_publish(struct nm_table *table) {
    static uint64_t published; /* under the lock */
    if (table != NULL) table->serial = ++published;
    struct nm_table *before = atomic_exchange(&nm_table, table);
    if (before != NULL) {
        before->next_retired = atomic_load(&nm_registry.retired);
        atomic_store(&nm_registry.retired, before);
    }
}

static int by_start(const void *a, const void *b) {
    uintptr_t left = ((const struct nm_address_range *)a)->start;
    uintptr_t right = ((const struct nm_address_range *)b)->start;
    return left < right ? -1 : left > right;
}

/* Buffers over one mapped file can overlap; the table's ranges are disjoint. */
static size_t merge_ranges(struct nm_address_range *ranges, size_t count) {
    qsort(ranges, count, sizeof *ranges, by_start);
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        if (kept > 0 && ranges[i].start <= ranges[kept - 1].end) {
            if (ranges[i].end > ranges[kept - 1].end) ranges[kept - 1].end = ranges[i].end;
        } else {
            ranges[kept++] = ranges[i];
        }
    }
    return kept;
}

struct nm_table *nm_registry_new_table(size_t count) {
    struct nm_table *table = nm_table_new(count, nm_registry.buffer_count, nm_config.copies);
    if (table == NULL) return NULL;
    for (size_t i = 0; i < nm_registry.buffer_count; ++i) {
        const struct nm_buffer *buffer = &nm_registry.buffers[i];
        table->ranges[i] = (struct nm_address_range){buffer->start, buffer->start + buffer->bytes};
    }
    table->range_count = merge_ranges(table->ranges, nm_registry.buffer_count);
    return table;
}

/* A weight of the buffer that went, unless another buffer holds it too. */
static bool is_gone(const struct nm_weight *weight, const struct nm_buffer *gone) {
    return weight->start - gone->start < gone->bytes &&
           nm_registry_buffer_at(weight->start) == NULL;
}

/* The table without what is gone; NULL when memory is short. */
static struct nm_table *table_without(const struct nm_table *table, const struct nm_buffer *gone) {
    struct nm_table *rest = nm_registry_new_table(table->count);
    if (rest == NULL) return NULL;
    size_t kept = 0;
    for (size_t i = 0; i < table->count; ++i)
        if (!is_gone(&table->weights[i], gone))
            nm_table_copy_weight(rest, kept++, &table->weights[i]);
    rest->count = kept;
    nm_table_seal(rest);
    return rest;
}

static void drop_weights(const struct nm_buffer *gone) {
    struct nm_table *table = atomic_load(&nm_table);
    if (table == NULL) return;
    struct nm_table *rest = table_without(table, gone);
    nm_registry_publish(rest); /* NULL, when memory is short: all read their primaries */
    size_t bytes = 0, mirrored = 0;
    for (size_t i = 0; i < table->count; ++i) {
        const struct nm_weight *weight = &table->weights[i];
        if (!is_gone(weight, gone)) continue;
        bytes += weight->bytes;
        if (weight->state == NM_WEIGHT_MIRRORED) mirrored += weight->bytes;
        nm_registry_release(weight, table->copies);
    }
    if (bytes == 0) return;
    nm_event("freed", "\"bytes\":%zu,\"mirrored_bytes\":%zu", bytes, mirrored);
    if (rest == NULL || rest->count == 0) nm_status_set(NM_FREED, NULL);
    atomic_store(&nm_stale, true);
    atomic_store(&nm_news, true);
}

void nm_registry_drop_buffer(const void *id) {
    pthread_mutex_lock(&nm_registry.lock);
    for (size_t i = 0; i < nm_registry.buffer_count; ++i) {
        if (nm_registry.buffers[i].id != id) continue;
        struct nm_buffer gone = nm_registry.buffers[i];
        if (nm_config.interleave) nm_interleave_undo(gone.start, gone.bytes);
        --nm_registry.buffer_count;
        memmove(&nm_registry.buffers[i], &nm_registry.buffers[i + 1],
                (nm_registry.buffer_count - i) * sizeof gone);
        drop_weights(&gone);
        nm_first_touch_forget(gone.start, gone.bytes);
        nm_registry_sweep();
        break;
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

/* The copies of [from, to) of a weight, or of one of its experts, are made anew. */
static void copy_again(const ptrdiff_t *delta, int copies, uintptr_t from, uintptr_t to) {
    for (int copy = 0; copy < copies; ++copy)
        if (delta[copy] != 0) memcpy((char *)from + delta[copy], (const void *)from, to - from);
}

static void copy_slices_again(const struct nm_weight *weight, uintptr_t from, uintptr_t to) {
    const struct nm_slices *slices = weight->slices;
    for (size_t i = 0; i < slices->count; ++i) {
        uintptr_t start = weight->start + i * weight->slab_bytes, end = start + weight->slab_bytes;
        if (end > from && start < to)
            copy_again(nm_slice_delta(slices, i, 0), slices->copies, start > from ? start : from,
                       end < to ? end : to);
    }
}

void nm_registry_refresh(const void *start, size_t bytes) {
    if (atomic_load_explicit(&nm_table, memory_order_acquire) == NULL || bytes == 0) return;
    pthread_mutex_lock(&nm_registry.lock);
    struct nm_table *table = atomic_load(&nm_table);
    uintptr_t low = (uintptr_t)start, high = low + bytes;
    for (size_t i = table == NULL ? 0 : nm_table_first_after(table, low);
         table != NULL && i < table->count && table->weights[i].start < high; ++i) {
        const struct nm_weight *weight = &table->weights[i];
        uintptr_t from = weight->start, to = from + weight->bytes;
        if (weight->host) {
            from = from > low ? from : low;
            to = to < high ? to : high;
        }
        copy_again(weight->delta, table->copies, from, to);
        if (weight->slices != NULL) copy_slices_again(weight, from, to);
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_registry_enter(void) { atomic_fetch_add(&graphs_in_flight, 1); }

void nm_registry_leave(void) {
    atomic_fetch_sub(&graphs_in_flight, 1);
    if (atomic_load(&nm_registry.retired) == NULL &&
        atomic_load(&nm_registry.retired_arenas) == NULL)
        return;
    pthread_mutex_lock(&nm_registry.lock);
    nm_registry_sweep();
    pthread_mutex_unlock(&nm_registry.lock);
}
