#include "shard.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "filter.h"
#include "first_touch.h"
#include "moving.h"
#include "page_size.h"
#include "partition.h"
#include "registry.h"
#include "shard_say.h"
#include "sys.h"
#include "tell.h"

struct nm_shard_pages nm_shard_pages[NM_MAX_COPIES];

/* All weights, which the workers take one after the other. */
struct work {
    struct nm_table *table;
    int threads;
    _Atomic size_t next;
    struct nm_progress progress;
};

/* A worker: memory for one call of move_pages, and what came of all of them. */
struct placing {
    struct work *work;
    struct nm_batch batch;
    int owners[NM_MOVE_BATCH]; /* read by */
    int wanted[NM_MOVE_BATCH]; /* nodes of the readers */
    struct nm_placed sum;
    struct nm_shard_pages pages[NM_MAX_COPIES];
};

static void move_batch(struct placing *p) {
    struct nm_batch *batch = &p->batch;
    if (batch->filled == 0) return;
    if (nm_config.rehearsal == 0) nm_batch_move(batch);
    int error = nm_move_pages(batch->filled, batch->pages, NULL, batch->status);
    if (error != 0) batch->error = error;
    for (size_t i = 0; i < batch->filled; ++i) {
        bool there = error == 0 && (nm_config.rehearsal != 0 || batch->status[i] == p->wanted[i]);
        p->sum.local += there;
        ++p->pages[p->owners[i]].asked;
        p->pages[p->owners[i]].local += there;
    }
    p->sum.asked += batch->filled;
    batch->filled = 0;
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

/* A page goes to the owner of its middle, a huge one to that of its own. */
static void add_page(struct placing *p, const struct nm_weight *weight, uintptr_t page) {
    int reader = owner_at(weight, page + nm_page_bytes() / 2, p->work->threads);
    int owner = owner_at(weight, nm_middle_of_page(page), p->work->threads);
    p->owners[p->batch.filled] = reader;
    p->wanted[p->batch.filled] = node_for(&nm_config.copy[reader], page);
    nm_batch_add(&p->batch, page, page < weight->start ? weight->start : page,
                 node_for(&nm_config.copy[owner], page));
    if (p->batch.filled == NM_MOVE_BATCH) move_batch(p);
}

static void place_weight(struct placing *p, struct nm_weight *weight) {
    size_t asked = p->sum.asked, local = p->sum.local;
    uintptr_t end = weight->start + weight->bytes;
    for (uintptr_t page = nm_page_at(weight->start); page < end; page += nm_page_bytes())
        add_page(p, weight, page);
    move_batch(p);
    size_t pages = p->sum.asked - asked;
    uint16_t share = pages == 0 ? 0 : (uint16_t)((p->sum.local - local) * 256 / pages);
    for (int copy = 0; copy < nm_config.copies; ++copy) weight->local_256[copy] = share;
    weight->state = NM_WEIGHT_SHARDED;
    nm_progress_add(&p->work->progress, weight->bytes);
}

static void place_in_turn(void *worker) {
    struct placing *p = worker;
    struct nm_table *table = p->work->table;
    size_t i;
    while ((i = atomic_fetch_add(&p->work->next, 1)) < table->count)
        if (table->weights[i].state != NM_WEIGHT_SMALL) place_weight(p, &table->weights[i]);
}

static struct nm_placed sum_of(const struct placing *workers, unsigned count) {
    struct nm_placed sum = {0};
    memset(nm_shard_pages, 0, sizeof nm_shard_pages);
    for (unsigned i = 0; i < count; ++i) {
        const struct placing *p = &workers[i];
        sum.asked += p->sum.asked;
        sum.local += p->sum.local;
        if (p->batch.error != 0) sum.error = p->batch.error;
        for (int copy = 0; copy < nm_config.copies; ++copy) {
            nm_shard_pages[copy].asked += p->pages[copy].asked;
            nm_shard_pages[copy].local += p->pages[copy].local;
        }
    }
    return sum;
}

static size_t bytes_to_place(const struct nm_table *table) {
    size_t sum = 0;
    for (size_t i = 0; i < table->count; ++i)
        if (table->weights[i].state != NM_WEIGHT_SMALL) sum += table->weights[i].bytes;
    return sum;
}

static void place_all(struct nm_table *table, int threads) {
    struct work work = {.table = table, .threads = threads};
    unsigned count = nm_movers();
    struct placing *workers = calloc(count, sizeof *workers);
    if (workers == NULL) return;
    for (unsigned i = 0; i < count; ++i) workers[i].work = &work;
    uint64_t start = nm_clock_ns(CLOCK_MONOTONIC);
    nm_progress_begin(&work.progress, bytes_to_place(table));
    nm_move_together(place_in_turn, workers, sizeof *workers, count);
    nm_progress_end(&work.progress);
    struct nm_placed sum = sum_of(workers, count);
    free(workers);
    sum.ns = nm_clock_ns(CLOCK_MONOTONIC) - start;
    sum.bytes = work.progress.bytes;
    sum.huge = nm_first_touch_huge_bytes();
    nm_tell(table, nm_shard_say_placed(&sum, threads));
    nm_tell_coverage();
}

void nm_shard_place(int threads) {
    pthread_mutex_lock(&nm_registry.lock);
    struct nm_table *table = atomic_load(&nm_table);
    if (table != NULL && threads > 0 && !nm_filter_added()) place_all(table, threads);
    pthread_mutex_unlock(&nm_registry.lock);
}
