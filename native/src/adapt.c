#include "adapt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "filter.h"
#include "plan.h"
#include "registry.h"

_Atomic bool nm_counting;

bool nm_plan_postpone_experts(struct nm_plan *plan) {
    bool any = false;
    for (size_t i = 0; nm_config.adapt_tokens > 0 && i < plan->table->count; ++i) {
        struct nm_weight *weight = &plan->table->weights[i];
        if (!nm_wanted(plan, i) || !weight->sliceable || weight->slices != NULL) continue;
        weight->slices = nm_slices_new(weight->bytes / weight->slab_bytes, nm_config.copies, NULL);
        if (weight->slices == NULL) continue; /* taken as a whole */
        weight->state = NM_WEIGHT_COUNTED;
        plan->is_new[i] = false;
        any = true;
    }
    if (any) atomic_store(&nm_counting, true);
    return any;
}

static bool was_read(const struct nm_weight *weight) {
    return weight->state == NM_WEIGHT_COUNTED && nm_slices_reads(weight->slices) > 0;
}

static bool is_due(const struct nm_weight *weight) {
    if (weight->state != NM_WEIGHT_COUNTED) return false;
    uint64_t used = weight->token_bytes / weight->slab_bytes;
    return nm_slices_reads(weight->slices) >= used * nm_config.adapt_tokens;
}

/* The table anew, with slices of its own for what was read: graphs in flight read the old ones. */
static bool plan_counted(struct nm_plan *plan, const struct nm_table *old) {
    plan->table = nm_registry_new_table(old->count);
    plan->is_new = calloc(old->count + 1, sizeof *plan->is_new);
    if (plan->table == NULL || plan->is_new == NULL) return false;
    for (size_t i = 0; i < old->count; ++i) {
        struct nm_weight *weight = &plan->table->weights[i];
        nm_table_copy_weight(plan->table, i, &old->weights[i]);
        if (!was_read(weight)) continue; /* the last layer sees fewer tokens of a prompt */
        struct nm_slices *own =
            nm_slices_new(weight->slices->count, nm_config.copies, weight->slices);
        if (own == NULL) return false;
        memset(own->wanted, true, own->count * sizeof *own->wanted);
        nm_slices_leave(weight->slices);
        weight->slices = own;
        plan->is_new[i] = true;
    }
    nm_table_seal(plan->table);
    return true;
}

static bool any_in(const struct nm_table *table, bool (*is)(const struct nm_weight *)) {
    for (size_t i = 0; table != NULL && i < table->count; ++i)
        if (is(&table->weights[i])) return true;
    return false;
}

static bool is_counted(const struct nm_weight *weight) {
    return weight->state == NM_WEIGHT_COUNTED;
}

static void copy_counted(const struct nm_table *old) {
    struct nm_plan plan = {.counted = true};
    if (!plan_counted(&plan, old)) {
        nm_table_free(plan.table);
        nm_plan_free(&plan);
        return;
    }
    char what[96];
    bool one = nm_config.adapt_tokens == 1;
    snprintf(what, sizeof what, "%u token%s counted: the experts that %s read most follow",
             nm_config.adapt_tokens, one ? " was" : "s were", one ? "it" : "they");
    nm_note("info", what, "", "");
    if (!nm_filter_added()) nm_plan_mirror(&plan);
    nm_plan_publish(&plan);
    nm_plan_free(&plan);
}

void nm_adapt(void) {
    if (!atomic_load_explicit(&nm_counting, memory_order_relaxed)) return;
    pthread_mutex_lock(&nm_registry.lock);
    const struct nm_table *table = atomic_load(&nm_table);
    if (any_in(table, is_due)) copy_counted(table);
    atomic_store(&nm_counting, any_in(atomic_load(&nm_table), is_counted));
    pthread_mutex_unlock(&nm_registry.lock);
}
