#include "thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"
#include "status.h"

/* Threads that count side by side must not take each other's lines. */
enum { CACHE_LINE = 64 };
_Static_assert(sizeof(struct nm_status_thread) == CACHE_LINE, "a line for each thread");
_Static_assert(offsetof(struct nm_status, thread) % CACHE_LINE == 0, "whole lines");

__thread struct nm_thread nm_thread;

/* For threads beyond the page's room, those of a forked child, and those that a filter might kill
 * for gettid: counted for nobody. */
static __thread struct nm_status_thread uncounted;

static pthread_key_t at_thread_end;

static void add(uint64_t *to, uint64_t value) { __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }

void nm_thread_settle(struct nm_status_thread *counts, int copy) {
    struct nm_status_thread *sum =
        &nm_status->retired[counts->copy >= 0 ? counts->copy : NM_MAX_COPIES];
    add(&sum->replica_bytes, counts->replica_bytes);
    add(&sum->home_bytes, counts->home_bytes);
    add(&sum->other_bytes, counts->other_bytes);
    add(&sum->redirected, counts->redirected);
    add(&sum->not_redirected, counts->not_redirected);
    add(&sum->row_hits, counts->row_hits);
    add(&sum->shard_bytes, counts->shard_bytes);
    size_t head = offsetof(struct nm_status_thread, copy);
    memset((char *)counts + head, 0, sizeof *counts - head);
    counts->copy = copy;
}

/* Engines without OpenMP start new threads for every graph: entries must come back. */
static void give_back(void *entry) {
    struct nm_status_thread *counts = entry;
    nm_thread_settle(counts, -1);
    nm_thread.counts = NULL;
    __atomic_store_n(&counts->tid, 0, __ATOMIC_RELEASE);
}

void nm_thread_init(void) { pthread_key_create(&at_thread_end, give_back); }

static void show_entry_used(uint32_t index) {
    uint32_t used = __atomic_load_n(&nm_status->threads, __ATOMIC_RELAXED);
    while (used <= index && !__atomic_compare_exchange_n(&nm_status->threads, &used, index + 1, 0,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static struct nm_status_thread *go_uncounted(void) {
    __atomic_fetch_add(&nm_status->uncounted, 1, __ATOMIC_RELAXED);
    return &uncounted;
}

static struct nm_status_thread *claim(void) {
    if (nm_filter_noticed()) return go_uncounted();
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    for (uint32_t i = 0; i < NM_MAX_THREADS; ++i) {
        struct nm_status_thread *entry = &nm_status->thread[i];
        uint32_t unused = 0;
        if (__atomic_load_n(&entry->tid, __ATOMIC_RELAXED) != 0) continue;
        if (!__atomic_compare_exchange_n(&entry->tid, &unused, tid, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        entry->copy = -1;
        show_entry_used(i);
        pthread_setspecific(at_thread_end, entry);
        return entry;
    }
    return go_uncounted();
}

struct nm_status_thread *nm_thread_counts(void) {
    if (nm_thread.counts == NULL) nm_thread.counts = claim();
    return nm_thread.counts;
}

void nm_thread_leave(void) {
    pthread_setspecific(at_thread_end, NULL);
    nm_thread.counts = &uncounted;
}
