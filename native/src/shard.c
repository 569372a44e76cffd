#include "shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "events.h"
#include "filter.h"
#include "heal.h"
#include "partition.h"
#include "registry.h"
#include "sys.h"
#include "tell.h"

enum { PAGE = 4096, BATCH = 16384 };

struct nm_shard_pages nm_shard_pages[NM_MAX_COPIES];

/* Memory for one call of move_pages, and what came of all of them. */
struct placing {
    void *pages[BATCH];
    int nodes[BATCH], status[BATCH], owners[BATCH];
    size_t filled;
    size_t asked, local; /* pages */
    int error;
};

static void move_batch(struct placing *p) {
    if (p->filled == 0) return;
    int error =
        nm_config.rehearsal != 0 ? 0 : nm_move_pages(p->filled, p->pages, p->nodes, p->status);
    if (error != 0) p->error = error;
    error = nm_move_pages(p->filled, p->pages, NULL, p->status);
    if (error != 0) p->error = error;
    for (size_t i = 0; i < p->filled; ++i) {
        bool there = error == 0 && (nm_config.rehearsal != 0 || p->status[i] == p->nodes[i]);
        p->local += there;
        ++nm_shard_pages[p->owners[i]].asked;
        nm_shard_pages[p->owners[i]].local += there;
        if (error == 0 && p->status[i] < 0) p->error = -p->status[i];
    }
    p->asked += p->filled;
    p->filled = 0;
}

/* A page goes to the owner of its middle; faulted in, so that it has a place. */
static void place_weight(struct placing *p, struct nm_weight *weight, int threads) {
    size_t asked = p->asked, local = p->local;
    uintptr_t end = weight->start + weight->bytes;
    for (uintptr_t page = weight->start / PAGE * PAGE; page < end; page += PAGE) {
        uintptr_t middle = page + PAGE / 2;
        if (middle < weight->start) middle = weight->start;
        if (middle >= end) middle = end - 1;
        int owner =
            nm_partition_owner(middle - weight->start, weight->slab_bytes, weight->rows, threads);
        (void)*(volatile const char *)middle;
        p->pages[p->filled] = (void *)page;
        p->owners[p->filled] = owner;
        p->nodes[p->filled++] = nm_config.copy[owner].nodes[0];
        if (p->filled == BATCH) move_batch(p);
    }
    move_batch(p);
    size_t pages = p->asked - asked;
    uint16_t share = pages == 0 ? 0 : (uint16_t)((p->local - local) * 256 / pages);
    for (int copy = 0; copy < nm_config.copies; ++copy) weight->local_256[copy] = share;
    weight->state = NM_WEIGHT_SHARDED;
}

static void say(const struct placing *p, int threads, double seconds) {
    char what[192];
    if (nm_config.rehearsal != 0)
        snprintf(what, sizeof what,
                 "shard rehearsed: nothing was moved; %zu pages of weights have a reader, for %d "
                 "threads",
                 p->asked, threads);
    else
        snprintf(
            what, sizeof what,
            "shard: %zu of %zu pages of weights are on the node of their reader, for %d threads, "
            "after %.2f s",
            p->local, p->asked, threads, seconds);
    bool good = p->local * 100 >= p->asked * 90;
    nm_note(good ? "info" : "warn", what, good ? "" : nm_heal_reason(p->error),
            threads % nm_config.copies == 0 ? "" : "use a number of threads that the nodes divide");
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void place_all(struct nm_table *table, int threads) {
    struct placing *p = calloc(1, sizeof *p);
    if (p == NULL) return;
    memset(nm_shard_pages, 0, sizeof nm_shard_pages);
    double start = now();
    for (size_t i = 0; i < table->count; ++i)
        if (table->weights[i].state != NM_WEIGHT_SMALL)
            place_weight(p, &table->weights[i], threads);
    say(p, threads, now() - start);
    nm_tell(table, "");
    nm_tell_coverage();
    free(p);
}

void nm_shard_place(int threads) {
    pthread_mutex_lock(&nm_registry.lock);
    struct nm_table *table = atomic_load(&nm_table);
    if (table != NULL && threads > 0 && !nm_filter_added()) place_all(table, threads);
    pthread_mutex_unlock(&nm_registry.lock);
}
