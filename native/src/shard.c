#include "shard.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "filter.h"
#include "first_touch.h"
#include "page_size.h"
#include "partition.h"
#include "registry.h"
#include "shard_say.h"
#include "sys.h"
#include "tell.h"

enum { BATCH = 16384 };

struct nm_shard_pages nm_shard_pages[NM_MAX_COPIES];

/* Memory for one call of move_pages, and what came of all of them. */
struct placing {
    void *pages[BATCH];
    int nodes[BATCH], status[BATCH], owners[BATCH]; /* moved to, found on, read by */
    int wanted[BATCH];                              /* nodes of the readers */
    size_t filled;
    size_t done; /* bytes of weights */
    struct nm_placed sum;
};

/* The call succeeds although pages stay; each then says why. */
static int move_to_nodes(struct placing *p) {
    int error = nm_move_pages(p->filled, p->pages, p->nodes, p->status);
    for (size_t i = 0; error == 0 && i < p->filled; ++i)
        if (p->status[i] < 0) error = -p->status[i];
    return error;
}

static void move_batch(struct placing *p) {
    if (p->filled == 0) return;
    int error = nm_config.rehearsal != 0 ? 0 : move_to_nodes(p);
    if (error != 0) p->sum.error = error;
    error = nm_move_pages(p->filled, p->pages, NULL, p->status);
    if (error != 0) p->sum.error = error;
    for (size_t i = 0; i < p->filled; ++i) {
        bool there = error == 0 && (nm_config.rehearsal != 0 || p->status[i] == p->wanted[i]);
        p->sum.local += there;
        ++nm_shard_pages[p->owners[i]].asked;
        nm_shard_pages[p->owners[i]].local += there;
    }
    p->sum.asked += p->filled;
    p->filled = 0;
}

/* The nodes of a socket take its pages in turn. */
static int node_for(const struct nm_copy *copy, uintptr_t page) {
    return copy->nodes[page / nm_page_bytes() % (unsigned)copy->node_count];
}

static int owner_at(const struct nm_weight *weight, uintptr_t address, int threads) {
    uintptr_t end = weight->start + weight->bytes;
    if (address < weight->start) address = weight->start;
    if (address >= end) address = end - 1;
    return nm_partition_owner(address - weight->start, weight->slab_bytes, weight->rows, threads);
}

/* A page goes to the owner of its middle, a huge one to that of its own; faulted in, so that it
 * has a place. */
static void add_page(struct placing *p, const struct nm_weight *weight, uintptr_t page,
                     int threads) {
    int reader = owner_at(weight, page + nm_page_bytes() / 2, threads);
    int owner = owner_at(weight, nm_middle_of_page(page), threads);
    (void)*(volatile const char *)(page < weight->start ? weight->start : page);
    p->pages[p->filled] = (void *)page;
    p->owners[p->filled] = reader;
    p->wanted[p->filled] = node_for(&nm_config.copy[reader], page);
    p->nodes[p->filled++] = node_for(&nm_config.copy[owner], page);
    if (p->filled == BATCH) move_batch(p);
}

static void place_weight(struct placing *p, struct nm_weight *weight, int threads) {
    size_t asked = p->sum.asked, local = p->sum.local;
    uintptr_t end = weight->start + weight->bytes;
    for (uintptr_t page = nm_page_at(weight->start); page < end; page += nm_page_bytes())
        add_page(p, weight, page, threads);
    move_batch(p);
    size_t pages = p->sum.asked - asked;
    uint16_t share = pages == 0 ? 0 : (uint16_t)((p->sum.local - local) * 256 / pages);
    for (int copy = 0; copy < nm_config.copies; ++copy) weight->local_256[copy] = share;
    weight->state = NM_WEIGHT_SHARDED;
    p->done += weight->bytes;
    nm_shard_say_progress(p->done, p->sum.bytes);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void place_all(struct nm_table *table, int threads) {
    struct placing *p = calloc(1, sizeof *p);
    if (p == NULL) return;
    memset(nm_shard_pages, 0, sizeof nm_shard_pages);
    uint64_t start = now_ns();
    for (size_t i = 0; i < table->count; ++i)
        if (table->weights[i].state != NM_WEIGHT_SMALL) p->sum.bytes += table->weights[i].bytes;
    for (size_t i = 0; i < table->count; ++i)
        if (table->weights[i].state != NM_WEIGHT_SMALL)
            place_weight(p, &table->weights[i], threads);
    p->sum.ns = now_ns() - start;
    p->sum.huge = nm_first_touch_huge_bytes();
    nm_tell(table, nm_shard_say_placed(&p->sum, threads));
    nm_tell_coverage();
    free(p);
}

void nm_shard_place(int threads) {
    pthread_mutex_lock(&nm_registry.lock);
    struct nm_table *table = atomic_load(&nm_table);
    if (table != NULL && threads > 0 && !nm_filter_added()) place_all(table, threads);
    pthread_mutex_unlock(&nm_registry.lock);
}
