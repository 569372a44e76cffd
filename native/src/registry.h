/*
 * What the shim knows: the engine's buffers of weights, the weights seen in graphs, the arenas of
 * replicas, and the table that the hot path reads. All changes happen under one lock; readers
 * only follow `nm_table`.
 */
#ifndef NM_REGISTRY_H
#define NM_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "table.h"

struct nm_buffer {
    const void *id; /* the engine's handle */
    uintptr_t start;
    size_t bytes;
    bool host;
    bool housed;   /* its bytes are already counted in an arena's size */
    bool doubtful; /* the engine has not marked it as one of weights */
    bool pinned;   /* memory of the CPU that belongs to a GPU's backend */
};

struct nm_registry {
    pthread_mutex_t lock;
    struct nm_buffer *buffers;
    size_t buffer_count, buffer_room;
    struct nm_arena *arenas;
    struct nm_table *_Atomic retired;        /* tables that a graph in flight may still read */
    struct nm_arena *_Atomic retired_arenas; /* what those lead to and nothing else needs */
};

extern struct nm_registry nm_registry;

/* The table in force; NULL until weights are known. */
extern struct nm_table *_Atomic nm_table;

/* Set when the status page no longer shows what the table holds: it is told again at the next
 * graph, so that an engine that frees its model at exit leaves the figures of its work. */
extern _Atomic bool nm_stale;

/* Set when a graph may hold weights that the table does not know. */
extern _Atomic bool nm_news;

/* Remembers a buffer of weights. */
void nm_registry_add_buffer(const void *id, const void *start, size_t bytes, bool host);

/* Says more of a remembered buffer. doubtful: it holds weights as long as no op writes to it. */
void nm_registry_describe_buffer(const void *id, bool doubtful, bool pinned);

/* Copies what is remembered of a buffer; false when nothing is. */
bool nm_registry_find_buffer(const void *id, struct nm_buffer *found);

/* The doubtful buffer that contains the address, or NULL. */
const void *nm_registry_doubtful_at(uintptr_t address);

/* Whether the address lies in a pinned buffer. */
bool nm_registry_pinned_at(uintptr_t address);

/* Forgets a buffer, its weights and their replicas. Call before the engine frees it. */
void nm_registry_drop_buffer(const void *id);

/* Copies the primary over the replicas of [start, start + bytes); call after a write to it. */
void nm_registry_refresh(const void *start, size_t bytes);

/* A graph starts or has ended; what is retired is freed when none is in flight. */
void nm_registry_enter(void);
void nm_registry_leave(void);

/* A table for `count` weights over the buffers known now; caller holds the lock. */
struct nm_table *nm_registry_new_table(size_t count);

/* Publishes a sealed table and retires the one before, which stays readable until the sweep;
 * the caller holds the lock for both. */
void nm_registry_publish(struct nm_table *table);
void nm_registry_sweep(void);

/* Gives back what replicas of a weight hold in the arenas; one that holds nothing more is retired.
 * Caller holds the lock. */
void nm_registry_release(const struct nm_weight *weight, int copies);
void nm_registry_release_piece(const char *replica, size_t bytes);

/* The buffer that contains the address, or NULL; caller holds the lock. */
struct nm_buffer *nm_registry_buffer_at(uintptr_t address);

#endif
