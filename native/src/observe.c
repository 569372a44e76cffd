#include "observe.h"

#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "filter.h"
#include "groups.h"
#include "page_size.h"
#include "registry.h"
#include "sample.h"
#include "status.h"
#include "sys.h"
#include "tell.h"

enum { PAGES_PER_WEIGHT = 64 };

static const uint64_t INTERVAL_NS = 1000000000u;

static bool is_on(const struct nm_copy *copy, int node) {
    for (int i = 0; i < copy->node_count; ++i)
        if (copy->nodes[i] == node) return true;
    return false;
}

size_t nm_observe_pages(const struct nm_weight *weight) {
    size_t pages = weight->bytes / nm_page_bytes();
    return pages == 0 ? 1 : pages < PAGES_PER_WEIGHT ? pages : PAGES_PER_WEIGHT;
}

/* Not touched: a page that is not there is on no node. */
static void choose(const struct nm_weight *weight, void **pages, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        uintptr_t address = weight->start + nm_sample_offset(weight->bytes, count, i);
        pages[i] = (void *)nm_page_at(address);
    }
}

int nm_observe_weight(struct nm_weight *weight, bool *changed) {
    void *pages[PAGES_PER_WEIGHT];
    int status[PAGES_PER_WEIGHT];
    size_t count = nm_observe_pages(weight);
    choose(weight, pages, count);
    int error = nm_move_pages(count, pages, NULL, status);
    if (error != 0) return error;
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        size_t local = 0;
        for (size_t i = 0; i < count; ++i) local += is_on(&nm_config.copy[copy], status[i]);
        uint16_t share = (uint16_t)(local * 256 / count);
        int change = (int)share - (int)weight->local_256[copy];
        if (abs(change) > 256 / 16) *changed = true;
        weight->local_256[copy] = share;
    }
    return 0;
}

static void show_that_pages_moved(void) {
    nm_status_begin();
    nm_status->placement_unix_ns = nm_clock_ns(CLOCK_REALTIME);
    nm_status_end();
}

static void look_at_all(struct nm_table *table) {
    bool changed = false;
    int error = 0;
    for (size_t i = 0; i < table->count && error == 0; ++i) {
        struct nm_weight *weight = &table->weights[i];
        error = nm_observe_weight(weight, &changed);
        if (error != 0 || weight->state == NM_WEIGHT_OBSERVED) continue;
        weight->state = NM_WEIGHT_OBSERVED;
        changed = true;
    }
    if (changed) show_that_pages_moved();
    if (error != 0)
        nm_tell(table, "the kernel did not say where the weights' pages are");
    else if (changed)
        nm_tell(table, "");
}

void nm_observe(int now) {
    static uint64_t next; /* under the lock */
    pthread_mutex_lock(&nm_registry.lock);
    struct nm_table *table = atomic_load(&nm_table);
    nm_groups_sum();
    uint64_t time = nm_clock_ns(CLOCK_MONOTONIC);
    if (table != NULL && (now || time >= next) && !nm_filter_added()) {
        look_at_all(table);
        uint64_t cost = nm_clock_ns(CLOCK_MONOTONIC) - time;
        next = time + (cost * 200 > INTERVAL_NS ? cost * 200 : INTERVAL_NS); /* at most 0.5 % */
    }
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_observe_token(size_t bytes) {
    pthread_mutex_lock(&nm_registry.lock);
    nm_status_begin();
    ++nm_status->decode_graphs;
    nm_status->decode_bytes += bytes;
    nm_status_end();
    pthread_mutex_unlock(&nm_registry.lock);
}
