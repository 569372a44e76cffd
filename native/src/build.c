#include "build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "events.h"
#include "fill.h"
#include "node_memory.h"
#include "registry.h"
#include "sample.h"
#include "status.h"
#include "tell.h"

/* Below this share of sampled pages on its node a copy is not called local. */
enum { LOCAL_PERCENT = 90 };

/* One build: the table it makes, and which of its weights are new. */
struct build {
    struct nm_table *table;
    bool *is_new; /* per weight of the table: to be mirrored by this build */
    bool home_serves;
    char reason[256]; /* why something is not mirrored; the last cause wins */
    struct nm_fill fills[NM_MAX_COPIES];
    struct nm_piece *pieces[NM_MAX_COPIES];
    size_t fill_count;
};

static bool mostly_local(const struct nm_sample *sample) {
    return (uint64_t)sample->local * 100 >= (uint64_t)sample->pages * LOCAL_PERCENT;
}

/* ---- what is new ---- */

static void add_weight(struct build *build, size_t index, const struct nm_candidate *c) {
    struct nm_weight *weight = &build->table->weights[index];
    const struct nm_buffer *buffer = nm_registry_buffer_at(c->start);
    weight->start = c->start;
    weight->bytes = c->bytes;
    weight->by_expert = c->by_expert;
    weight->host = buffer != NULL && buffer->host;
    weight->state = c->bytes < nm_config.min_bytes ? NM_WEIGHT_SMALL : NM_WEIGHT_REFUSED;
    build->is_new[index] = true;
}

/* A weight of the old table that a grown candidate swallowed: its replicas are not led to any
 * more. Their memory goes with the buffer. */
static bool swallowed(const struct nm_weight *weight, const struct nm_candidate *list,
                      size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (weight->start >= list[i].start && weight->start < nm_candidate_end(&list[i]))
            return true;
    return false;
}

static bool new_table(struct build *build, const struct nm_table *old,
                      const struct nm_candidate *list, size_t count) {
    size_t known = old == NULL ? 0 : old->count;
    build->table = nm_registry_new_table(known + count);
    build->is_new = calloc(known + count + 1, sizeof *build->is_new);
    if (build->table == NULL || build->is_new == NULL) return false;
    size_t at = 0, next = 0;
    for (size_t i = 0; i < known; ++i) {
        if (swallowed(&old->weights[i], list, count)) continue;
        while (next < count && list[next].start < old->weights[i].start)
            add_weight(build, at++, &list[next++]);
        nm_table_copy_weight(build->table, at++, &old->weights[i]);
    }
    while (next < count) add_weight(build, at++, &list[next++]);
    build->table->count = at;
    nm_table_seal(build->table);
    return true;
}

/* ---- what fits ---- */

static bool wanted(const struct build *build, size_t index) {
    return build->is_new[index] && build->table->weights[index].state != NM_WEIGHT_SMALL;
}

static bool needs_replica(const struct build *build, int copy) {
    return copy != nm_config.home_copy || !build->home_serves;
}

static size_t available_to_copy(int copy, int replicas) {
    struct nm_node_memory memory;
    size_t sum = 0;
    const struct nm_copy *where = &nm_config.copy[copy];
    if (nm_config.rehearsal != 0) /* all pretend nodes share the real one */
        return nm_node_memory_read(0, &memory)
                   ? nm_node_memory_available(&memory) / (size_t)replicas
                   : SIZE_MAX;
    for (int i = 0; i < where->node_count; ++i) {
        if (!nm_node_memory_read(where->nodes[i], &memory)) return SIZE_MAX;
        sum += nm_node_memory_available(&memory);
    }
    return sum;
}

/* Bytes that every copy in need of a replica can still take, and the copy that says so. */
static size_t budget(const struct build *build, int *narrowest) {
    int replicas = 0;
    size_t least = SIZE_MAX;
    for (int copy = 0; copy < nm_config.copies; ++copy) replicas += needs_replica(build, copy);
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        if (!needs_replica(build, copy)) continue;
        size_t available = available_to_copy(copy, replicas);
        if (available < least) {
            least = available;
            *narrowest = copy;
        }
    }
    return least;
}

static void say_too_small(struct build *build, int copy, size_t needed, size_t available) {
    char what[192];
    snprintf(what, sizeof what, "node %s: %zu MiB available for a replica of %zu MiB",
             nm_config.copy[copy].nodes_text, available >> 20, needed >> 20);
    snprintf(build->reason, sizeof build->reason, "%s", what);
    nm_note("warn", what, "dense weights are mirrored first, then experts, as far as it reaches",
            "free memory on that node, or mirror on fewer nodes with --nodes");
}

/* Marks as not wanted what does not fit. Dense weights are read in every token, experts only
 * when they are chosen: dense first. */
static void cut_to_budget(struct build *build) {
    int narrowest = 0;
    size_t available = budget(build, &narrowest), needed = 0, left = available;
    for (size_t i = 0; i < build->table->count; ++i)
        if (wanted(build, i)) needed += build->table->weights[i].bytes;
    if (needed <= available) return;
    say_too_small(build, narrowest, needed, available);
    for (int experts = 0; experts <= 1; ++experts)
        for (size_t i = 0; i < build->table->count; ++i) {
            const struct nm_weight *weight = &build->table->weights[i];
            if (!wanted(build, i) || weight->by_expert != (bool)experts) continue;
            if (weight->bytes <= left)
                left -= weight->bytes;
            else
                build->is_new[i] = false;
        }
}

/* ---- is the primary at home ---- */

static size_t ranges_of(const struct build *build, struct nm_range *ranges) {
    size_t count = 0;
    for (size_t i = 0; i < build->table->count; ++i)
        if (wanted(build, i))
            ranges[count++] = (struct nm_range){(const char *)build->table->weights[i].start,
                                                build->table->weights[i].bytes};
    return count;
}

static void decide_home(struct build *build, struct nm_range *ranges) {
    build->home_serves = false;
    if (nm_config.copy_home || nm_config.home_copy < 0) return;
    const struct nm_copy *home = &nm_config.copy[nm_config.home_copy];
    size_t count = ranges_of(build, ranges);
    struct nm_sample sample = nm_sample_ranges(ranges, count, home->nodes, home->node_count);
    /* When the kernel refuses to say, a second copy at home could not be checked either. */
    build->home_serves = sample.error != 0 || mostly_local(&sample);
    if (!build->home_serves) {
        char what[128];
        snprintf(what, sizeof what,
                 "only %u of %u sampled pages of the weights are on home node %s", sample.local,
                 sample.pages, home->nodes_text);
        nm_note("info", what, "the home node gets a replica of its own", "");
    }
}

/* ---- copying ---- */

static size_t unhoused_bytes(void) {
    size_t sum = 0;
    for (size_t i = 0; i < nm_registry.buffer_count; ++i)
        if (!nm_registry.buffers[i].housed) sum += nm_registry.buffers[i].bytes;
    return sum;
}

static char *take_room(int copy, const struct nm_weight *weight) {
    for (struct nm_arena *arena = nm_registry.arenas; arena != NULL; arena = arena->next) {
        char *room = arena->copy == copy
                         ? nm_arena_take(arena, (const void *)weight->start, weight->bytes)
                         : NULL;
        if (room != NULL) return room;
    }
    return NULL;
}

static void link_arena(struct nm_arena *arena) {
    arena->next = nm_registry.arenas;
    nm_registry.arenas = arena;
}

static void say_policy_refused(const struct nm_arena *arena) {
    char what[96], why[96];
    snprintf(what, sizeof what, "node %s: mbind: %s", nm_config.copy[arena->copy].nodes_text,
             strerror(arena->policy_error));
    snprintf(why, sizeof why, "%s",
             arena->policy_error == EPERM    ? "a seccomp profile, as containers have, forbids it"
             : arena->policy_error == EINVAL ? "the cpuset does not allow memory of that node"
                                             : "the kernel does not offer it");
    nm_note("warn", what, why, "the replica is filled by threads on its node instead, and checked");
}

/* Room enough for what the engine has loaded and not yet used, so that a model whose graph comes
 * in pieces still has one arena per node; without overcommit, just for what is needed now. */
static bool open_arena(int copy, size_t bytes, size_t count) {
    size_t least = nm_arena_need(bytes, count);
    size_t roomy = nm_arena_need(unhoused_bytes(), count + 4096);
    struct nm_arena *arena = nm_arena_new(copy, roomy > least ? roomy : least);
    if (arena == NULL) arena = nm_arena_new(copy, least);
    if (arena == NULL) return false;
    if (arena->policy_error != 0) say_policy_refused(arena);
    link_arena(arena);
    return true;
}

static bool plan_copy(struct build *build, int copy, size_t count, size_t bytes) {
    struct nm_piece *pieces = calloc(count + 1, sizeof *pieces);
    if (pieces == NULL) return false;
    build->pieces[build->fill_count] = pieces;
    bool opened = false;
    size_t at = 0;
    for (size_t i = 0; i < build->table->count; ++i) {
        if (!wanted(build, i)) continue;
        struct nm_weight *weight = &build->table->weights[i];
        char *room = take_room(copy, weight);
        if (room == NULL && !opened) {
            opened = open_arena(copy, bytes, count);
            room = opened ? take_room(copy, weight) : NULL;
        }
        if (room == NULL) continue;
        weight->delta[copy] = room - (char *)weight->start;
        pieces[at++] = (struct nm_piece){(const char *)weight->start, room, weight->bytes};
    }
    struct nm_fill *fill = &build->fills[build->fill_count++];
    *fill = (struct nm_fill){.copy = copy, .pieces = pieces, .count = at};
    for (size_t i = 0; i < at; ++i) fill->bytes += pieces[i].bytes;
    nm_event("build", "\"copy\":%d,\"node\":%d,\"bytes\":%zu", copy, nm_config.copy[copy].nodes[0],
             fill->bytes);
    return true;
}

static struct build *in_progress; /* under the registry's lock */

static void send_progress(size_t index, size_t done) {
    const struct nm_fill *fill = &in_progress->fills[index];
    nm_event("progress", "\"copy\":%d,\"done_bytes\":%zu,\"bytes\":%zu", fill->copy, done,
             fill->bytes);
}

static void fill_copies(struct build *build) {
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < build->table->count; ++i) {
        if (!wanted(build, i)) continue;
        ++count;
        bytes += build->table->weights[i].bytes;
    }
    if (count == 0) return;
    nm_status_set(NM_BUILDING, "");
    for (int copy = 0; copy < nm_config.copies; ++copy)
        if (needs_replica(build, copy)) plan_copy(build, copy, count, bytes);
    in_progress = build;
    nm_fill_run(build->fills, build->fill_count, send_progress);
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

static void drop_copy(struct build *build, const struct nm_fill *fill, const struct nm_sample *s) {
    const char *nodes = nm_config.copy[fill->copy].nodes_text;
    char what[160];
    snprintf(what, sizeof what, "node %s: only %u of %u sampled pages of the replica landed there",
             nodes, s->local, s->pages);
    snprintf(build->reason, sizeof build->reason, "%s; it was dropped", what);
    nm_note("warn", what, "the node had too little free memory, or the policy call was refused",
            "the replica was dropped; free memory on that node and start again");
    for (size_t i = 0; i < build->table->count; ++i) {
        struct nm_weight *weight = &build->table->weights[i];
        if (!wanted(build, i) || weight->delta[fill->copy] == 0) continue;
        ptrdiff_t only_this[NM_MAX_COPIES] = {0};
        only_this[fill->copy] = weight->delta[fill->copy];
        struct nm_weight gone = {.start = weight->start, .bytes = weight->bytes};
        gone.delta = only_this;
        nm_registry_release(&gone, nm_config.copies);
        weight->delta[fill->copy] = 0;
    }
}

static void check_copies(struct build *build, struct nm_range *ranges) {
    for (size_t k = 0; k < build->fill_count; ++k) {
        const struct nm_fill *fill = &build->fills[k];
        if (fill->count == 0) continue;
        struct nm_sample sample = sample_fill(fill, ranges);
        nm_event("replica",
                 "\"copy\":%d,\"node\":%d,\"bytes\":%zu,\"ns\":%llu,\"sampled_pages\":%u,"
                 "\"sampled_local\":%u,\"errno\":%d",
                 fill->copy, nm_config.copy[fill->copy].nodes[0], fill->bytes,
                 (unsigned long long)fill->ns, sample.pages, sample.local, sample.error);
        struct nm_status_copy *shown = &nm_status->copy[fill->copy];
        nm_status_begin();
        shown->build_ns += fill->ns;
        shown->build_threads = fill->threads;
        nm_status_end();
        if (sample.error == 0 && !mostly_local(&sample)) drop_copy(build, fill, &sample);
    }
}

static void settle_states(struct build *build) {
    for (size_t i = 0; i < build->table->count; ++i) {
        if (!wanted(build, i)) continue;
        struct nm_weight *weight = &build->table->weights[i];
        bool served = true;
        for (int copy = 0; copy < nm_config.copies; ++copy)
            if (needs_replica(build, copy) && weight->delta[copy] == 0) served = false;
        weight->state = served ? NM_WEIGHT_MIRRORED : NM_WEIGHT_REFUSED;
    }
}

/* ---- the order of steps ---- */

static void mirror_new(struct build *build) {
    struct nm_range *ranges = calloc(build->table->count + 1, sizeof *ranges);
    if (ranges == NULL) return;
    decide_home(build, ranges);
    cut_to_budget(build);
    fill_copies(build);
    check_copies(build, ranges);
    settle_states(build);
    free(ranges);
}

static void build_locked(struct nm_candidate *candidates, size_t count, bool seams_fire,
                         const char *reason) {
    struct nm_table *old = atomic_load(&nm_table);
    count = nm_candidates_reduce(candidates, count, old);
    struct build build = {0};
    snprintf(build.reason, sizeof build.reason, "%s", reason);
    if (count > 0 && new_table(&build, old, candidates, count)) {
        if (seams_fire) mirror_new(&build);
        nm_registry_publish(build.table);
        nm_tell(build.table, build.reason);
        nm_tell_coverage();
        nm_registry_sweep();
    } else {
        nm_table_free(build.table);
        if (old != NULL && atomic_load(&nm_stale)) nm_tell(old, nm_status->reason);
    }
    for (size_t i = 0; i < build.fill_count; ++i) free(build.pieces[i]);
    free(build.is_new);
}

void nm_build(struct nm_candidate *candidates, size_t count, bool seams_fire, const char *reason) {
    pthread_mutex_lock(&nm_registry.lock);
    build_locked(candidates, count, seams_fire, reason);
    pthread_mutex_unlock(&nm_registry.lock);
}
