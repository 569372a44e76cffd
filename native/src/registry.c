#include "registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config.h"
#include "events.h"
#include "status.h"

struct nm_registry nm_registry = {.lock = PTHREAD_MUTEX_INITIALIZER};
struct nm_table *_Atomic nm_table;
_Atomic bool nm_news;
_Atomic bool nm_stale;
static _Atomic unsigned graphs_in_flight;

/* Index of the first buffer that ends after the address. */
static size_t first_buffer_after(uintptr_t address) {
    size_t low = 0, high = nm_registry.buffer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct nm_buffer *buffer = &nm_registry.buffers[middle];
        if (buffer->start + buffer->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct nm_buffer *nm_registry_buffer_at(uintptr_t address) {
    size_t i = first_buffer_after(address);
    if (i == nm_registry.buffer_count || nm_registry.buffers[i].start > address) return NULL;
    return &nm_registry.buffers[i];
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
    enum { PAGE = 4096 };
    uintptr_t first = (uintptr_t)start / PAGE * PAGE;
    madvise((void *)first, (uintptr_t)start + bytes - first, MADV_NOHUGEPAGE);
}

void nm_registry_add_buffer(const void *id, const void *start, size_t bytes, bool host) {
    uintptr_t address = (uintptr_t)start;
    if (start == NULL || bytes == 0) return; /* engines probe with empty buffers */
    pthread_mutex_lock(&nm_registry.lock);
    size_t at = first_buffer_after(address);
    bool overlaps =
        at < nm_registry.buffer_count && nm_registry.buffers[at].start < address + bytes;
    if (!overlaps && room_for_one_more()) {
        struct nm_buffer *slot = &nm_registry.buffers[at];
        memmove(slot + 1, slot, (nm_registry.buffer_count - at) * sizeof *slot);
        *slot = (struct nm_buffer){.id = id, .start = address, .bytes = bytes, .host = host};
        ++nm_registry.buffer_count;
        /* A huge page moves as a whole: rows of two nodes could not part. */
        if (nm_config.shard) no_huge_pages(start, bytes);
        atomic_store_explicit(&nm_news, true, memory_order_release);
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_registry_release(const struct nm_weight *weight, int copies) {
    for (int copy = 0; copy < copies; ++copy) {
        if (weight->delta[copy] == 0) continue;
        char *replica = (char *)weight->start + weight->delta[copy];
        for (struct nm_arena **link = &nm_registry.arenas; *link != NULL; link = &(*link)->next) {
            struct nm_arena *arena = *link;
            if (replica < arena->start || replica >= arena->start + arena->bytes) continue;
            arena->live -= weight->bytes;
            if (arena->live == 0) {
                *link = arena->next;
                nm_arena_free(arena);
            }
            break;
        }
    }
}

/* Retired tables go unless a graph in flight may hold one. A graph counts itself in before it
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
}

void nm_registry_publish(struct nm_table *table) {
    struct nm_table *before = atomic_exchange(&nm_table, table);
    if (before != NULL) {
        before->next_retired = atomic_load(&nm_registry.retired);
        atomic_store(&nm_registry.retired, before);
    }
}

struct nm_table *nm_registry_new_table(size_t count) {
    struct nm_table *table = nm_table_new(count, nm_registry.buffer_count, nm_config.copies);
    for (size_t i = 0; table != NULL && i < nm_registry.buffer_count; ++i) {
        const struct nm_buffer *buffer = &nm_registry.buffers[i];
        table->ranges[i] = (struct nm_address_range){buffer->start, buffer->start + buffer->bytes};
    }
    return table;
}

/* The table in force without the weights in [start, end); NULL when memory is short. */
static struct nm_table *table_without(const struct nm_table *table, uintptr_t start,
                                      uintptr_t end) {
    size_t first = nm_table_first_after(table, start), last = first;
    while (last < table->count && table->weights[last].start < end) ++last;
    size_t gone = last - first;
    struct nm_table *rest = nm_registry_new_table(table->count - gone);
    if (rest == NULL) return NULL;
    for (size_t i = 0, k = 0; i < table->count; ++i)
        if (i < first || i >= last) nm_table_copy_weight(rest, k++, &table->weights[i]);
    nm_table_seal(rest);
    return rest;
}

static void drop_weights(const struct nm_buffer *gone) {
    struct nm_table *table = atomic_load(&nm_table);
    if (table == NULL) return;
    uintptr_t end = gone->start + gone->bytes;
    struct nm_table *rest = table_without(table, gone->start, end);
    nm_registry_publish(rest); /* NULL, when memory is short: all read their primaries */
    size_t bytes = 0, mirrored = 0;
    for (size_t i = nm_table_first_after(table, gone->start);
         i < table->count && table->weights[i].start < end; ++i) {
        bytes += table->weights[i].bytes;
        if (table->weights[i].state == NM_WEIGHT_MIRRORED) mirrored += table->weights[i].bytes;
        nm_registry_release(&table->weights[i], table->copies);
    }
    if (bytes == 0) return;
    nm_event("freed", "\"bytes\":%zu,\"mirrored_bytes\":%zu", bytes, mirrored);
    if (rest == NULL || rest->count == 0) nm_status_set(NM_FREED, "");
    atomic_store(&nm_stale, true);
    atomic_store(&nm_news, true);
}

void nm_registry_drop_buffer(const void *id) {
    pthread_mutex_lock(&nm_registry.lock);
    for (size_t i = 0; i < nm_registry.buffer_count; ++i) {
        if (nm_registry.buffers[i].id != id) continue;
        struct nm_buffer gone = nm_registry.buffers[i];
        --nm_registry.buffer_count;
        memmove(&nm_registry.buffers[i], &nm_registry.buffers[i + 1],
                (nm_registry.buffer_count - i) * sizeof gone);
        drop_weights(&gone);
        nm_registry_sweep();
        break;
    }
    pthread_mutex_unlock(&nm_registry.lock);
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
        for (int copy = 0; copy < table->copies; ++copy)
            if (weight->delta[copy] != 0)
                memcpy((char *)from + weight->delta[copy], (const void *)from, to - from);
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_registry_enter(void) { atomic_fetch_add(&graphs_in_flight, 1); }

void nm_registry_leave(void) {
    atomic_fetch_sub(&graphs_in_flight, 1);
    if (atomic_load(&nm_registry.retired) == NULL) return;
    pthread_mutex_lock(&nm_registry.lock);
    nm_registry_sweep();
    pthread_mutex_unlock(&nm_registry.lock);
}
