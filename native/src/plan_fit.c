#include <stdio.h>

#include "events.h"
#include "node_memory.h"
#include "plan.h"

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
static size_t budget(const struct nm_plan *plan, int *narrowest) {
    int replicas = 0;
    size_t least = SIZE_MAX;
    for (int copy = 0; copy < nm_config.copies; ++copy) replicas += nm_needs_replica(plan, copy);
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        if (!nm_needs_replica(plan, copy)) continue;
        size_t available = available_to_copy(copy, replicas);
        if (available < least) {
            least = available;
            *narrowest = copy;
        }
    }
    return least;
}

static void say_too_small(struct nm_plan *plan, int copy, size_t needed, size_t available) {
    char what[192];
    snprintf(what, sizeof what, "node %s: %zu MiB available for a replica of %zu MiB",
             nm_config.copy[copy].nodes_text, available >> 20, needed >> 20);
    snprintf(plan->reason, sizeof plan->reason, "%s", what);
    nm_note("warn", what, "dense weights are mirrored first, then experts, as far as it reaches",
            "free memory on that node, or mirror on fewer nodes with --nodes");
}

/* Marks as not wanted what does not fit. Dense weights are read in every token, experts only
 * when they are chosen: dense first. */
void nm_plan_fit(struct nm_plan *plan) {
    int narrowest = 0;
    size_t available = budget(plan, &narrowest), needed = 0, left = available;
    for (size_t i = 0; i < plan->table->count; ++i)
        if (nm_wanted(plan, i)) needed += plan->table->weights[i].bytes;
    if (needed <= available) return;
    say_too_small(plan, narrowest, needed, available);
    for (int experts = 0; experts <= 1; ++experts)
        for (size_t i = 0; i < plan->table->count; ++i) {
            const struct nm_weight *weight = &plan->table->weights[i];
            if (!nm_wanted(plan, i) || weight->by_expert != (bool)experts) continue;
            if (weight->bytes <= left)
                left -= weight->bytes;
            else
                plan->is_new[i] = false;
        }
}
