#include "build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "fill.h"
#include "filter.h"
#include "heal.h"
#include "interleave.h"
#include "plan.h"
#include "refusal.h"
#include "registry.h"
#include "sample.h"
#include "status.h"
#include "tell.h"

/* ---- what is new ---- */

static void add_weight(struct nm_plan *plan, size_t index, const struct nm_candidate *c) {
    struct nm_weight *weight = &plan->table->weights[index];
    const struct nm_buffer *buffer = nm_registry_buffer_at(c->start);
    weight->start = c->start;
    weight->bytes = c->bytes;
    weight->by_expert = c->by_expert;
    weight->sliceable = c->sliceable;
    weight->slab_bytes = c->slab_bytes;
    weight->rows = c->rows;
    weight->token_bytes = c->token_bytes;
    weight->group = c->group;
    weight->host = buffer != NULL && buffer->host;
    weight->state = c->bytes < nm_config.min_bytes ? NM_WEIGHT_SMALL : NM_WEIGHT_REFUSED;
    plan->is_new[index] = true;
}

/* A weight of the old table that a grown candidate swallowed. */
static bool swallowed(const struct nm_weight *weight, const struct nm_candidate *list,
                      size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (weight->start >= list[i].start && weight->start < nm_candidate_end(&list[i]))
            return true;
    return false;
}

/* Their replicas are not led to by the next table. */
static void release_swallowed(const struct nm_table *old, const struct nm_candidate *list,
                              size_t count) {
    for (size_t i = 0; old != NULL && i < old->count; ++i)
        if (swallowed(&old->weights[i], list, count))
            nm_registry_release(&old->weights[i], old->copies);
}

static bool new_table(struct nm_plan *plan, const struct nm_table *old,
                      const struct nm_candidate *list, size_t count) {
    size_t known = old == NULL ? 0 : old->count;
    plan->table = nm_registry_new_table(known + count);
    plan->is_new = calloc(known + count + 1, sizeof *plan->is_new);
    if (plan->table == NULL || plan->is_new == NULL) return false;
    size_t at = 0, next = 0;
    for (size_t i = 0; i < known; ++i) {
        if (swallowed(&old->weights[i], list, count)) continue;
        while (next < count && list[next].start < old->weights[i].start)
            add_weight(plan, at++, &list[next++]);
        nm_table_copy_weight(plan->table, at++, &old->weights[i]);
    }
    while (next < count) add_weight(plan, at++, &list[next++]);
    plan->table->count = at;
    nm_table_seal(plan->table);
    return true;
}

/* ---- copying ---- */

static size_t unhoused_bytes(void) {
    size_t sum = 0;
    for (size_t i = 0; i < nm_registry.buffer_count; ++i)
        if (!nm_registry.buffers[i].housed) sum += nm_registry.buffers[i].bytes;
    return sum;
}

static char *take_room(int copy, const struct nm_range *part) {
    for (struct nm_arena *arena = nm_registry.arenas; arena != NULL; arena = arena->next) {
        char *room = arena->copy == copy ? nm_arena_take(arena, part->start, part->bytes) : NULL;
        if (room != NULL) return room;
    }
    return NULL;
}

static void link_arena(struct nm_arena *arena) {
    arena->next = nm_registry.arenas;
    nm_registry.arenas = arena;
}

/* Room enough for what the engine has loaded and not yet used, so that a model whose graph comes
 * in pieces still has one arena per node; without overcommit, just for what is needed now. */
static bool open_arena(int copy, size_t bytes, size_t count) {
    size_t least = nm_arena_need(bytes, count);
    size_t roomy = nm_arena_need(unhoused_bytes(), count + 4096);
    struct nm_arena *arena = nm_arena_new(copy, roomy > least ? roomy : least);
    if (arena == NULL) arena = nm_arena_new(copy, least);
    if (arena == NULL) return false;
    if (arena->policy_error != 0)
        nm_say_refused(NM_MBIND, arena->policy_error,
                       "replicas are filled by threads on their nodes, without a memory policy");
    link_arena(arena);
    return true;
}

/* Room for a part; `count` and `bytes` are those of the whole copy, for which an arena is opened
 * once. */
static char *make_room(int copy, const struct nm_range *part, size_t count, size_t bytes,
                       bool *opened) {
    char *room = take_room(copy, part);
    if (room != NULL || *opened) return room;
    *opened = open_arena(copy, bytes, count);
    return *opened ? take_room(copy, part) : NULL;
}

/* A limit on address space, or a kernel that promises no more memory than it has. */
static void say_no_addresses(struct nm_plan *plan, int copy, size_t bytes, int error) {
    char what[96], why[96];
    snprintf(what, sizeof what, "node %s: no addresses for a replica of %zu MiB",
             nm_config.copy[copy].nodes_text, bytes >> 20);
    snprintf(why, sizeof why, "mmap: %s", strerror(error));
    snprintf(plan->reason, sizeof plan->reason, "%s (%s)", what, why);
    nm_note("warn", what, why,
            "raise the limit (ulimit -v), or set vm.overcommit_memory to 0 or 1");
}

/* Returns the number of parts that found room. */
static size_t take_rooms(struct nm_plan *plan, int copy, size_t count, size_t bytes,
                         struct nm_piece *pieces) {
    bool opened = false, said = false;
    size_t at = 0;
    for (size_t i = 0; i < plan->table->count; ++i) {
        const struct nm_weight *weight = &plan->table->weights[i];
        size_t parts = nm_wanted(plan, i) ? nm_part_count(weight) : 0;
        for (size_t k = 0; k < parts; ++k) {
            if (!nm_part_wanted(weight, k)) continue;
            struct nm_range part = nm_part(weight, k);
            char *room = make_room(copy, &part, count, bytes, &opened);
            if (room == NULL) {
                if (!said) say_no_addresses(plan, copy, bytes, errno);
                said = true;
                continue;
            }
            *nm_part_delta(weight, k, copy) = room - part.start;
            pieces[at++] = (struct nm_piece){part.start, room, part.bytes};
        }
    }
    return at;
}

static void plan_copy(struct nm_plan *plan, int copy, size_t count, size_t bytes) {
    struct nm_piece *pieces = calloc(count + 1, sizeof *pieces);
    if (pieces == NULL) return;
    plan->pieces[plan->fill_count] = pieces;
    size_t found = take_rooms(plan, copy, count, bytes, pieces);
    struct nm_fill *fill = &plan->fills[plan->fill_count++];
    *fill = (struct nm_fill){.copy = copy, .pieces = pieces, .count = found};
    for (size_t i = 0; i < found; ++i) fill->bytes += pieces[i].bytes;
    if (found == 0) return;
    nm_event("build", "\"copy\":%d,\"node\":%d,\"nodes\":\"%s\",\"bytes\":%zu", copy,
             nm_config.copy[copy].nodes[0], nm_config.copy[copy].nodes_text, fill->bytes);
}

static struct nm_plan *in_progress; /* under the registry's lock */

static void send_progress(size_t index, size_t done) {
    const struct nm_fill *fill = &in_progress->fills[index];
    nm_event("progress", "\"copy\":%d,\"done_bytes\":%zu,\"bytes\":%zu", fill->copy, done,
             fill->bytes);
}

static void fill_copies(struct nm_plan *plan) {
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < plan->table->count; ++i) {
        const struct nm_weight *weight = &plan->table->weights[i];
        size_t parts = nm_wanted(plan, i) ? nm_part_count(weight) : 0;
        for (size_t k = 0; k < parts; ++k) {
            if (!nm_part_wanted(weight, k)) continue;
            ++count;
            bytes += nm_part(weight, k).bytes;
        }
    }
    if (count == 0) return;
    nm_status_set(NM_BUILDING, nm_status->state == NM_FREED ? "" : NULL);
    for (int copy = 0; copy < nm_config.copies; ++copy)
        if (nm_needs_replica(plan, copy)) plan_copy(plan, copy, count, bytes);
    for (const struct nm_arena *arena = nm_registry.arenas; arena != NULL; arena = arena->next)
        nm_arena_end_small(arena);
    in_progress = plan;
    nm_fill_run(plan->fills, plan->fill_count, send_progress);
    in_progress = NULL;
    for (size_t i = 0; i < nm_registry.buffer_count; ++i) nm_registry.buffers[i].housed = true;
}

/* ---- checking ---- */

static struct nm_sample sample_fill(const struct nm_fill *fill, struct nm_range *ranges) {
    for (size_t i = 0; i < fill->count; ++i)
        ranges[i] = (struct nm_range){fill->pieces[i].to, fill->pieces[i].bytes};
    const struct nm_copy *where = &nm_config.copy[fill->copy];
    return nm_sample_ranges(ranges, fill->count, where->nodes, where->node_count);
}

static void drop_copy(struct nm_plan *plan, const struct nm_fill *fill, const struct nm_sample *s) {
    const char *nodes = nm_config.copy[fill->copy].nodes_text;
    char what[160];
    snprintf(what, sizeof what, "node %s: only %u of %u sampled pages of the replica landed there",
             nodes, s->local, s->pages);
    snprintf(plan->reason, sizeof plan->reason, "%s; it was dropped", what);
    nm_note("warn", what, "the node had too little free memory, or the policy call was refused",
            "the replica was dropped; free memory on that node and start again");
    for (size_t i = 0; i < fill->count; ++i)
        nm_registry_release_piece(fill->pieces[i].to, fill->pieces[i].bytes);
    for (size_t i = 0; i < plan->table->count; ++i) {
        const struct nm_weight *weight = &plan->table->weights[i];
        size_t parts = nm_wanted(plan, i) ? nm_part_count(weight) : 0;
        for (size_t k = 0; k < parts; ++k) *nm_part_delta(weight, k, fill->copy) = 0;
    }
}

/* A node whose memory is full of page cache gives its pages elsewhere rather than drop the cache;
 * moving them makes it. */
static void gather_spilled(const struct nm_fill *fill, struct nm_range *ranges,
                           struct nm_sample *sample) {
    const struct nm_copy *where = &nm_config.copy[fill->copy];
    if (sample->error != 0 || nm_in_place(sample) || where->node_count != 1) return;
    nm_heal(ranges, fill->count, where->nodes[0], NM_PROBE_BYTES);
    *sample = sample_fill(fill, ranges);
}

static void check_copies(struct nm_plan *plan, struct nm_range *ranges) {
    for (size_t k = 0; k < plan->fill_count; ++k) {
        const struct nm_fill *fill = &plan->fills[k];
        if (fill->count == 0) continue;
        struct nm_sample sample = sample_fill(fill, ranges);
        gather_spilled(fill, ranges, &sample);
        nm_event("replica",
                 "\"copy\":%d,\"node\":%d,\"nodes\":\"%s\",\"bytes\":%zu,\"ns\":%llu,"
                 "\"sampled_pages\":%u,\"sampled_local\":%u,\"errno\":%d",
                 fill->copy, nm_config.copy[fill->copy].nodes[0],
                 nm_config.copy[fill->copy].nodes_text, fill->bytes, (unsigned long long)fill->ns,
                 sample.pages, sample.local, sample.error);
        struct nm_status_copy *shown = &nm_status->copy[fill->copy];
        nm_status_begin();
        shown->build_ns += fill->ns;
        shown->build_threads = fill->threads;
        nm_status_end();
        if (fill->affinity_error != 0)
            nm_say_refused(NM_AFFINITY, fill->affinity_error,
                           "replicas are filled by threads that run anywhere");
        if (sample.error == 0 && !nm_mostly_local(&sample)) drop_copy(plan, fill, &sample);
    }
}

static bool is_served(const struct nm_plan *plan, const struct nm_weight *weight, size_t part) {
    for (int copy = 0; copy < nm_config.copies; ++copy)
        if (nm_needs_replica(plan, copy) && *nm_part_delta(weight, part, copy) == 0) return false;
    return nm_part_wanted(weight, part);
}

static void settle_states(struct nm_plan *plan) {
    for (size_t i = 0; i < plan->table->count; ++i) {
        if (!nm_wanted(plan, i)) continue;
        struct nm_weight *weight = &plan->table->weights[i];
        bool any = false;
        for (size_t k = 0; k < nm_part_count(weight); ++k) {
            bool served = is_served(plan, weight, k);
            if (weight->slices != NULL) weight->slices->wanted[k] = served;
            any = any || served;
        }
        weight->state = !any                     ? NM_WEIGHT_REFUSED
                        : weight->slices != NULL ? NM_WEIGHT_SLICED
                                                 : NM_WEIGHT_MIRRORED;
    }
}

/* ---- the order of steps ---- */

size_t nm_count_parts(const struct nm_table *table) {
    size_t count = 0;
    for (size_t i = 0; i < table->count; ++i) count += nm_part_count(&table->weights[i]);
    return count;
}

void nm_plan_mirror(struct nm_plan *plan) {
    struct nm_range *ranges = calloc(nm_count_parts(plan->table) + 1, sizeof *ranges);
    if (ranges == NULL) return;
    nm_plan_home(plan, ranges);
    nm_plan_fit(plan);
    fill_copies(plan);
    check_copies(plan, ranges);
    settle_states(plan);
    nm_plan_release(plan, ranges);
    free(ranges);
}

void nm_plan_publish(struct nm_plan *plan) {
    if (nm_filter_noticed()) snprintf(plan->reason, sizeof plan->reason, "%s", NM_FILTERED);
    nm_registry_publish(plan->table);
    nm_tell(plan->table, plan->reason);
    nm_tell_coverage();
    nm_registry_sweep();
}

void nm_plan_free(struct nm_plan *plan) {
    for (size_t i = 0; i < plan->fill_count; ++i) free(plan->pieces[i]);
    free(plan->is_new);
}

/* A buffer may have been freed, or forgotten, since the graph was looked at. */
static size_t in_buffers(struct nm_candidate *list, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i)
        if (nm_registry_buffer_at(list[i].start) != NULL) list[kept++] = list[i];
    return kept;
}

static void build_locked(struct nm_candidate *candidates, size_t count, bool seams_fire,
                         const char *reason) {
    struct nm_table *old = atomic_load(&nm_table);
    count = nm_candidates_reduce(candidates, in_buffers(candidates, count), old);
    struct nm_plan plan = {0};
    snprintf(plan.reason, sizeof plan.reason, "%s", reason);
    if (count > 0 && new_table(&plan, old, candidates, count)) {
        release_swallowed(old, candidates, count);
        bool copying =
            seams_fire && !nm_config.shard && !nm_config.observe && !nm_config.interleave;
        if (copying && !nm_filter_added()) nm_plan_mirror(&plan);
        if (nm_config.interleave && !nm_filter_added())
            snprintf(plan.reason, sizeof plan.reason, "%s", nm_interleave(plan.table, plan.is_new));
        nm_plan_publish(&plan);
    } else {
        nm_table_free(plan.table);
        if (old != NULL && atomic_load(&nm_stale)) nm_tell(old, nm_status->reason);
    }
    nm_plan_free(&plan);
}

void nm_build(struct nm_candidate *candidates, size_t count, bool seams_fire, const char *reason) {
    pthread_mutex_lock(&nm_registry.lock);
    build_locked(candidates, count, seams_fire, reason);
    pthread_mutex_unlock(&nm_registry.lock);
}
