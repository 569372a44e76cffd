#include "tell.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "events.h"
#include "groups.h"
#include "observe.h"
#include "page_size.h"
#include "plan.h"
#include "registry.h"
#include "sample.h"
#include "shard.h"
#include "status.h"

struct totals {
    size_t gemm, mirrored, sharded, observed, interleaved, small, refused, written, tensors;
    size_t token, token_mirrored;
};

/* Of what a token reads of a weight, the share that its mirrored experts have, as far as it is
 * known which are read. */
static void count_slices(struct totals *sum, const struct nm_weight *weight) {
    const struct nm_slices *slices = weight->slices;
    uint64_t all = nm_slices_reads(slices), mirrored = 0;
    for (size_t i = 0; i < slices->count; ++i) {
        if (!nm_part_mirrored(weight, i)) continue;
        sum->mirrored += weight->slab_bytes;
        sum->refused -= weight->slab_bytes;
        mirrored += all > 0 ? atomic_load(&slices->reads[i]) : 1;
    }
    double share = (double)mirrored / (double)(all > 0 ? all : slices->count);
    sum->token_mirrored += (size_t)((double)weight->token_bytes * share);
}

static struct totals count_up(const struct nm_table *table) {
    struct totals sum = {0};
    for (size_t i = 0; i < table->count; ++i) {
        const struct nm_weight *weight = &table->weights[i];
        bool dead = atomic_load(&weight->dead);
        sum.gemm += weight->bytes;
        sum.token += weight->token_bytes;
        ++sum.tensors;
        if (weight->state == NM_WEIGHT_MIRRORED && !dead) {
            sum.mirrored += weight->bytes;
            sum.token_mirrored += weight->token_bytes;
        } else if (weight->state == NM_WEIGHT_SHARDED) {
            sum.sharded += weight->bytes;
        } else if (weight->state == NM_WEIGHT_OBSERVED) {
            sum.observed += weight->bytes;
        } else if (weight->state == NM_WEIGHT_INTERLEAVED) {
            sum.interleaved += weight->bytes;
        } else if (weight->state == NM_WEIGHT_SMALL) {
            sum.small += weight->bytes;
        } else {
            sum.refused += weight->bytes;
            if (weight->slices != NULL && !dead) count_slices(&sum, weight);
        }
        if (weight->state == NM_WEIGHT_MIRRORED && dead) sum.written += weight->bytes;
    }
    return sum;
}

static void recount_shard(int copy) {
    struct nm_status_copy *shown = &nm_status->copy[copy];
    const struct nm_shard_pages *pages = &nm_shard_pages[copy];
    nm_status_begin();
    shown->role = NM_SHARD;
    shown->bytes = pages->asked * nm_page_bytes();
    shown->sampled_pages = (uint32_t)pages->asked;
    shown->sampled_local = (uint32_t)pages->local;
    nm_status_end();
}

/* An interleaved copy's part on that node, as far as samples tell. */
static void recount_part(const struct nm_table *table, int copy) {
    struct nm_status_copy *shown = &nm_status->copy[copy];
    size_t pages = 0, there = 0, bytes = 0;
    for (size_t i = 0; i < table->count; ++i) {
        const struct nm_weight *weight = &table->weights[i];
        if (weight->state != NM_WEIGHT_INTERLEAVED) continue;
        size_t asked = nm_observe_pages(weight), share = weight->local_256[copy];
        pages += asked;
        there += (asked * share + 128) / 256;
        bytes += weight->bytes / 256 * share;
    }
    nm_status_begin();
    shown->role = NM_PART;
    shown->bytes = bytes;
    shown->sampled_pages = (uint32_t)pages;
    shown->sampled_local = (uint32_t)there;
    nm_status_end();
}

static void recount_copy(const struct nm_table *table, int copy, struct nm_range *ranges) {
    struct nm_status_copy *shown = &nm_status->copy[copy];
    size_t count = 0, bytes = 0;
    bool in_place = false;
    for (size_t i = 0; i < table->count; ++i) {
        const struct nm_weight *weight = &table->weights[i];
        for (size_t k = 0; k < nm_part_count(weight); ++k) {
            ptrdiff_t delta = *nm_part_delta(weight, k, copy);
            if (delta == 0 && (!nm_part_mirrored(weight, k) || copy != nm_config.home_copy))
                continue;
            in_place = in_place || delta == 0;
            struct nm_range part = nm_part(weight, k);
            ranges[count++] = (struct nm_range){part.start + delta, part.bytes};
            if (!atomic_load(&weight->dead)) bytes += part.bytes;
        }
    }
    const struct nm_copy *where = &nm_config.copy[copy];
    struct nm_sample sample = nm_sample_ranges(ranges, count, where->nodes, where->node_count);
    nm_status_begin();
    shown->role = count == 0 ? NM_UNUSED : in_place ? NM_PRIMARY : NM_REPLICA;
    shown->bytes = bytes;
    shown->sampled_pages = sample.pages;
    shown->sampled_local = sample.local;
    shown->sample_errno = sample.error;
    nm_status_end();
}

static size_t arena_bytes(void) {
    size_t sum = 0;
    for (const struct nm_arena *arena = nm_registry.arenas; arena != NULL; arena = arena->next)
        sum += arena->bytes;
    return sum;
}

/* A reason lasts as long as what it is the reason of: a later build without one of its own does not
 * end it, but for that of a model that was freed. */
static void choose_reason(char *reason, size_t bytes, const struct totals *sum) {
    if (sum->mirrored > 0 && sum->refused == 0 && sum->written == 0)
        reason[0] = '\0';
    else if (reason[0] != '\0')
        return;
    else if (sum->refused > 0 && nm_status->state != NM_FREED && nm_status->reason[0] != '\0')
        snprintf(reason, bytes, "%s", nm_status->reason);
    else if (sum->written > 0)
        snprintf(reason, bytes, "the engine writes to these weights while it computes");
}

void nm_tell(const struct nm_table *table, const char *reason) {
    char kept[sizeof nm_status->reason]; /* it may be the page's own text */
    snprintf(kept, sizeof kept, "%s", reason);
    atomic_store(&nm_stale, false);
    struct nm_range *ranges = calloc(nm_count_parts(table) + 1, sizeof *ranges);
    struct totals sum = count_up(table);
    choose_reason(kept, sizeof kept, &sum);
    for (int copy = 0; ranges != NULL && copy < nm_config.copies; ++copy)
        if (sum.sharded > 0)
            recount_shard(copy);
        else if (sum.interleaved > 0)
            recount_part(table, copy);
        else
            recount_copy(table, copy, ranges);
    free(ranges);
    nm_status_begin();
    nm_status->gemm_bytes = sum.gemm;
    nm_status->gemm_tensors = (uint32_t)sum.tensors;
    nm_status->mirrored_bytes = sum.mirrored;
    nm_status->sharded_bytes = sum.sharded;
    nm_status->observed_bytes = sum.observed;
    nm_status->interleaved_bytes = sum.interleaved;
    nm_status->small_bytes = sum.small;
    nm_status->refused_bytes = sum.refused;
    nm_status->token_bytes = sum.token;
    nm_status->token_mirrored_bytes = sum.token_mirrored;
    nm_status->arena_bytes = arena_bytes();
    if (nm_config.observe) nm_groups_tell(table);
    nm_status->built_unix_ns = nm_clock_ns(CLOCK_REALTIME);
    nm_status->state = sum.observed > 0      ? NM_OBSERVED
                       : sum.sharded > 0     ? NM_SHARDED
                       : sum.interleaved > 0 ? NM_INTERLEAVED
                       : sum.mirrored == 0   ? NM_OFF
                       : sum.refused > 0     ? NM_PARTIAL
                                             : NM_MIRRORED;
    snprintf(nm_status->reason, sizeof nm_status->reason, "%s", kept);
    nm_status_end();
}

static void tell_primary(int copy) {
    const struct nm_status_copy *shown = &nm_status->copy[copy];
    nm_event("primary",
             "\"copy\":%d,\"node\":%d,\"nodes\":\"%s\",\"bytes\":%llu,\"sampled_pages\":%u,"
             "\"sampled_local\":%u",
             copy, shown->node, shown->nodes, (unsigned long long)shown->bytes,
             shown->sampled_pages, shown->sampled_local);
}

void nm_tell_coverage(void) {
    for (int copy = 0; copy < nm_config.copies; ++copy)
        if (nm_status->copy[copy].role == NM_PRIMARY) tell_primary(copy);
    nm_event(
        "coverage",
        "\"gemm_bytes\":%llu,\"mirrored_bytes\":%llu,\"small_bytes\":%llu,"
        "\"refused_bytes\":%llu,\"token_bytes\":%llu,\"token_mirrored_bytes\":%llu",
        (unsigned long long)nm_status->gemm_bytes, (unsigned long long)nm_status->mirrored_bytes,
        (unsigned long long)nm_status->small_bytes, (unsigned long long)nm_status->refused_bytes,
        (unsigned long long)nm_status->token_bytes,
        (unsigned long long)nm_status->token_mirrored_bytes);
}
