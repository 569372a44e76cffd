#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup_memory.h"
#include "events.h"
#include "node_memory.h"
#include "plan.h"
#include "registry.h"

/* What one copy may still take, who says so, and what would make it more. */
struct room {
    size_t bytes;
    char whose[36];
    const char *before, *behind; /* of the MiB that are missing, in a sentence */
    int shared_by;               /* copies that what is added would be divided among */
};

/* `found` becomes the room if it is narrower. */
static void tighten(struct room *room, struct room found, const char *format, const char *which) {
    if (found.bytes >= room->bytes) return;
    *room = found;
    snprintf(room->whose, sizeof room->whose, format, which);
}

static size_t on_nodes(const struct nm_copy *where) {
    struct nm_node_memory memory;
    size_t sum = 0;
    for (int i = 0; i < where->node_count; ++i) {
        if (!nm_node_memory_read(where->nodes[i], &memory)) return SIZE_MAX;
        sum += nm_node_memory_available(&memory);
    }
    return sum;
}

static size_t held_by(int copy) {
    size_t sum = 0;
    for (const struct nm_arena *arena = nm_registry.arenas; arena != NULL; arena = arena->next)
        if (arena->copy == copy) sum += arena->live;
    return sum;
}

static void tighten_to_copy(struct room *room, int copy, int replicas) {
    static const struct nm_copy real_node = {.node_count = 1};
    bool rehearsal = nm_config.rehearsal != 0; /* all pretend nodes share the real one */
    const struct nm_copy *where = rehearsal ? &real_node : &nm_config.copy[copy];
    size_t free_there = on_nodes(where);
    if (rehearsal && free_there != SIZE_MAX) free_there /= (size_t)replicas;
    struct room there = {.bytes = free_there,
                         .before = "free",
                         .behind = " on that node, or leave it out with --nodes,",
                         .shared_by = rehearsal ? replicas : 1};
    tighten(room, there, "node %s", nm_config.copy[copy].nodes_text);
    if (nm_config.budget_bytes == 0) return;
    size_t held = held_by(copy);
    struct room budget = {
        .bytes = nm_config.budget_bytes > held ? nm_config.budget_bytes - held : 0,
        .before = "raise --budget by",
        .behind = "",
        .shared_by = 1};
    tighten(room, budget, "the budget%s", "");
}

static struct room narrowest_room(const struct nm_plan *plan) {
    struct room room = {.bytes = SIZE_MAX};
    int replicas = 0;
    for (int copy = 0; copy < nm_config.copies; ++copy) replicas += nm_needs_replica(plan, copy);
    if (replicas == 0) return room;
    size_t group = nm_cgroup_available();
    struct room limit = {.bytes = group == SIZE_MAX ? group : group / (size_t)replicas,
                         .before = "raise the container's memory limit by",
                         .behind = "",
                         .shared_by = replicas};
    tighten(&room, limit, "the control group's memory limit%s", "");
    for (int copy = 0; copy < nm_config.copies; ++copy)
        if (nm_needs_replica(plan, copy)) tighten_to_copy(&room, copy, replicas);
    return room;
}

static void say_too_small(struct nm_plan *plan, const struct room *room, size_t needed,
                          bool postponed) {
    char what[100], remedy[88], later[56] = "";
    size_t missing = (needed - room->bytes) * (size_t)room->shared_by;
    snprintf(what, sizeof what, "%s leaves %zu MiB for a replica of %zu MiB", room->whose,
             room->bytes >> 20, needed >> 20);
    snprintf(remedy, sizeof remedy, "%s %zu MiB%s for all of it", room->before,
             (missing + (1 << 20) - 1) >> 20, room->behind);
    if (postponed)
        snprintf(later, sizeof later, "; experts follow when %u token%s counted",
                 nm_config.adapt_tokens, nm_config.adapt_tokens == 1 ? " was" : "s were");
    snprintf(plan->reason, sizeof plan->reason, "%s: %s%s", what, remedy, later);
    nm_note(plan->counted ? "info" : "warn", what,
            postponed ? "experts follow when it is counted which are read most"
                      : "what is read most per token and byte comes first",
            remedy);
}

/* A part that is wanted, and how much of it a token reads. */
struct wanted {
    size_t index, part;
    bool by_expert;
    double density; /* bytes read for one token / bytes */
};

/* An engine warms up with all experts, so that they may seem to be read like dense weights. */
static int most_read_first(const void *a, const void *b) {
    const struct wanted *left = a, *right = b;
    if (left->by_expert != right->by_expert) return left->by_expert ? 1 : -1;
    if (left->density != right->density) return left->density < right->density ? 1 : -1;
    if (left->index != right->index) return left->index < right->index ? -1 : 1;
    return left->part < right->part ? -1 : 1;
}

static double density_of(const struct nm_weight *weight, size_t part, uint64_t all_reads) {
    double whole = (double)weight->token_bytes / (double)weight->bytes;
    if (weight->slices == NULL || all_reads == 0) return whole;
    /* token_bytes / slab_bytes experts for a token */
    return (double)atomic_load(&weight->slices->reads[part]) / (double)all_reads *
           (double)weight->token_bytes / (double)weight->slab_bytes;
}

static size_t list_weight(const struct nm_plan *plan, size_t index, struct wanted *list) {
    const struct nm_weight *weight = &plan->table->weights[index];
    size_t parts = nm_wanted(plan, index) ? nm_part_count(weight) : 0;
    uint64_t reads = weight->slices == NULL ? 0 : nm_slices_reads(weight->slices);
    for (size_t k = 0; list != NULL && k < parts; ++k)
        list[k] = (struct wanted){index, k, weight->by_expert, density_of(weight, k, reads)};
    return parts;
}

static void leave_out(struct nm_plan *plan, const struct wanted *part) {
    struct nm_slices *slices = plan->table->weights[part->index].slices;
    if (slices == NULL)
        plan->is_new[part->index] = false;
    else
        slices->wanted[part->part] = false;
}

/* What does not fit is passed over: something smaller may. */
static void take_most_read(struct nm_plan *plan, size_t left) {
    size_t count = 0;
    for (size_t i = 0; i < plan->table->count; ++i) count += list_weight(plan, i, NULL);
    struct wanted *list = calloc(count + 1, sizeof *list);
    if (list == NULL) {
        memset(plan->is_new, 0, plan->table->count * sizeof *plan->is_new);
        return;
    }
    count = 0;
    for (size_t i = 0; i < plan->table->count; ++i) count += list_weight(plan, i, &list[count]);
    qsort(list, count, sizeof *list, most_read_first);
    for (size_t i = 0; i < count; ++i) {
        size_t bytes = nm_part(&plan->table->weights[list[i].index], list[i].part).bytes;
        if (bytes <= left)
            left -= bytes;
        else
            leave_out(plan, &list[i]);
    }
    free(list);
}

void nm_plan_fit(struct nm_plan *plan) {
    struct room room = narrowest_room(plan);
    size_t needed = 0;
    for (size_t i = 0; i < plan->table->count; ++i)
        if (nm_wanted(plan, i)) needed += plan->table->weights[i].bytes;
    if (needed <= room.bytes) return;
    say_too_small(plan, &room, needed, nm_plan_postpone_experts(plan));
    take_most_read(plan, room.bytes);
}
