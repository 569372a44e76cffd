#include "scratch.h"

#include <pthread.h>
#include <string.h>

#include "registry.h"
#include "status.h"

/* Not every graph writes to every cache: encoders do not, nor do graphs without outputs. */
enum { LOOKS = 16 };

struct scratch {
    const void *id; /* NULL: unused */
    struct nm_status_buffer told;
};

static struct scratch known[NM_MAX_BUFFERS];
_Atomic int nm_scratch_looks;

static struct scratch *find(const void *id) {
    for (size_t i = 0; i < NM_MAX_BUFFERS; ++i)
        if (known[i].id == id) return &known[i];
    return NULL;
}

/* All of it each time: the page may have been opened since the last one. */
static void tell(void) {
    nm_status_begin();
    uint32_t count = 0;
    for (size_t i = 0; i < NM_MAX_BUFFERS; ++i)
        if (known[i].id != NULL && known[i].told.kind != NM_ALLOTTED)
            nm_status->buffer[count++] = known[i].told;
    nm_status->buffers = count;
    nm_status_end();
}

void nm_scratch_add(const void *id, const void *start, size_t bytes) {
    pthread_mutex_lock(&nm_registry.lock);
    struct scratch *entry = find(id); /* a handle used again: its first use has ended */
    if (entry == NULL) entry = find(NULL);
    if (entry != NULL) {
        *entry = (struct scratch){id, {(uintptr_t)start, bytes, NM_ALLOTTED, 0}};
        atomic_store_explicit(&nm_scratch_looks, LOOKS, memory_order_relaxed);
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_scratch_computes(const void *id) {
    pthread_mutex_lock(&nm_registry.lock);
    struct scratch *entry = find(id);
    if (entry != NULL) {
        entry->told.kind = NM_COMPUTE;
        tell();
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_scratch_written(uintptr_t address) {
    pthread_mutex_lock(&nm_registry.lock);
    for (size_t i = 0; i < NM_MAX_BUFFERS; ++i) {
        struct nm_status_buffer *told = &known[i].told;
        if (known[i].id == NULL || address - told->start >= told->bytes) continue;
        if (told->kind == NM_ALLOTTED) {
            told->kind = NM_CACHE;
            tell();
        }
        break;
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_scratch_drop(const void *id) {
    pthread_mutex_lock(&nm_registry.lock);
    struct scratch *entry = find(id);
    if (entry != NULL) {
        bool was_told = entry->told.kind != NM_ALLOTTED;
        memset(entry, 0, sizeof *entry);
        if (was_told) tell();
    }
    pthread_mutex_unlock(&nm_registry.lock);
}
