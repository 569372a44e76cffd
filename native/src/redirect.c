#include "redirect.h"

#include <string.h>

#include "config.h"
#include "groups.h"
#include "partition.h"
#include "reader.h"
#include "reads.h"
#include "registry.h"
#include "shard_say.h"

size_t nm_op_bytes(const struct nm_layout *l, const void *op, const void *weight, bool by_expert) {
    size_t bytes = nm_tensor_span(l, weight);
    const void *ids = by_expert ? nm_src(l, op, 2) : NULL;
    if (ids == NULL) return bytes;
    int64_t experts = nm_ne(l, weight, 2), named = nm_ne(l, ids, 0) * nm_ne(l, ids, 1);
    return experts > 0 && named < experts ? bytes / (size_t)experts * (size_t)named : bytes;
}

static void count(struct nm_status_thread *counts, const struct nm_weight *weight, ptrdiff_t delta,
                  int copy, size_t bytes) {
    if (counts->copy != copy) nm_thread_settle(counts, copy);
    enum nm_weight_state state = weight->state;
    if (state >= NM_WEIGHT_SHARDED) { /* where its pages are is known */
        bool owner = copy >= 0 && (state != NM_WEIGHT_SHARDED ||
                                   (copy == nm_thread.pin_copy && nm_thread.sharded == weight &&
                                    !atomic_load_explicit(&weight->stolen, memory_order_relaxed)));
        size_t local = owner ? bytes / 256 * weight->local_256[copy] : 0;
        counts->shard_bytes += local;
        counts->other_bytes += bytes - local;
        ++counts->redirected;
        if (nm_config.observe) nm_group_read(counts, weight->group, local, bytes - local);
        return;
    }
    if (delta != 0) {
        counts->replica_bytes += bytes;
        ++counts->redirected;
    } else if (copy >= 0 && copy == nm_config.home_copy && state == NM_WEIGHT_MIRRORED) {
        counts->home_bytes += bytes;
        ++counts->redirected;
    } else {
        counts->other_bytes += bytes;
        ++counts->not_redirected;
    }
}

static int usable_copy(const struct nm_weight *weight) {
    if (nm_config.no_redirect || atomic_load_explicit(&weight->dead, memory_order_relaxed))
        return -1;
    return nm_reader_copy();
}

/* ---- weights whose experts have places of their own ---- */

ptrdiff_t nm_slice_moved(const struct nm_weight *weight, size_t expert) {
    int copy = usable_copy(weight);
    if (copy < 0 || weight->state != NM_WEIGHT_SLICED) return 0;
    return *nm_slice_delta(weight->slices, expert, copy);
}

void nm_next_slice(struct nm_thread *thread, uintptr_t row) {
    const struct nm_weight *weight = thread->sliced;
    size_t expert = nm_slice_at(weight, row);
    if (thread->range_delta != 0) nm_thread_counts()->row_hits += thread->range_hits;
    thread->range_hits = 0;
    thread->range_start = weight->start + expert * weight->slab_bytes;
    thread->range_bytes = weight->slab_bytes;
    thread->range_delta = nm_slice_moved(weight, expert);
}

static bool slice_at_home(const struct nm_weight *weight, size_t expert, int copy) {
    return copy >= 0 && copy == nm_config.home_copy && weight->state == NM_WEIGHT_SLICED &&
           weight->slices->wanted[expert];
}

/* Books what a thread reads of one expert, from where that lies. */
static void count_slice(struct nm_status_thread *counts, const struct nm_weight *weight,
                        size_t expert, int copy, size_t bytes, bool *all) {
    if (nm_slice_moved(weight, expert) != 0) {
        counts->replica_bytes += bytes;
    } else if (slice_at_home(weight, expert, copy)) {
        counts->home_bytes += bytes;
    } else {
        counts->other_bytes += bytes;
        *all = false;
    }
}

static void count_op(struct nm_status_thread *counts, bool all) {
    if (all)
        ++counts->redirected;
    else
        ++counts->not_redirected;
}

/* The experts that the op names; all of them when it names as many as there are. */
static void count_experts(struct nm_status_thread *counts, const struct nm_layout *l,
                          const void *op, const struct nm_weight *weight, int threads) {
    const char *ids = nm_src(l, op, 2);
    int64_t experts = (int64_t)weight->slices->count;
    int64_t used = ids == NULL ? experts : nm_ne(l, ids, 0);
    int64_t tokens = ids == NULL ? 1 : nm_ne(l, ids, 1);
    int copy = usable_copy(weight);
    size_t bytes = weight->slab_bytes / (size_t)(threads > 0 ? threads : 1);
    bool all = true;
    if (counts->copy != copy) nm_thread_settle(counts, copy);
    if (used * tokens >= experts)
        for (int64_t i = 0; i < experts; ++i)
            count_slice(counts, weight, (size_t)i, copy, bytes, &all);
    else
        for (int64_t i = 0; i < used * tokens; ++i) {
            uint32_t expert = nm_expert_named(l, ids, i % used, i / used);
            if (expert < experts) count_slice(counts, weight, expert, copy, bytes, &all);
        }
    count_op(counts, all);
}

_Atomic bool nm_amx_seen;

/* Whether ggml divides the op by the weight's rows: it divides by columns when there are more of
 * those, and AMX does so for long prompts. */
static bool rows_are_fixed(const struct nm_layout *l, const void *op,
                           const struct nm_weight *weight) {
    enum { MOST_AMX_COLUMNS = 32 };
    const void *other = nm_src(l, op, 1);
    int64_t columns = nm_ne(l, other, 1) * nm_ne(l, other, 2) * nm_ne(l, other, 3);
    bool amx = !weight->host && atomic_load_explicit(&nm_amx_seen, memory_order_relaxed);
    if (columns < weight->rows && (!amx || columns <= MOST_AMX_COLUMNS)) return true;
    nm_shard_prompt_mixed(amx && columns > MOST_AMX_COLUMNS);
    return false;
}

struct nm_choice nm_choose(struct nm_thread *thread, const struct nm_module *engine, const void *op,
                           bool by_expert, int threads) {
    struct nm_choice none = {0};
    const struct nm_layout *l = &engine->layout;
    const struct nm_table *table = atomic_load_explicit(&nm_table, memory_order_acquire);
    const void *weight = nm_src(l, op, 0);
    if (table == NULL || weight == NULL) return none;
    uintptr_t address = (uintptr_t)nm_data(l, weight);
    struct nm_weight *known = nm_table_find(table, address);
    if (known == NULL || address + nm_tensor_span(l, weight) > known->start + known->bytes) {
        if (nm_table_in_buffer(table, address))
            atomic_store_explicit(&nm_news, true, memory_order_relaxed);
        return none;
    }
    if (known->state == NM_WEIGHT_SHARDED && rows_are_fixed(l, op, known)) thread->sharded = known;
    struct nm_status_thread *counts = thread->counts != NULL ? thread->counts : nm_thread_counts();
    if (__builtin_expect(known->slices != NULL, 0) && by_expert) {
        count_experts(counts, l, op, known, threads);
        return (struct nm_choice){known, 0, true};
    }
    int copy = usable_copy(known);
    ptrdiff_t delta = copy >= 0 ? known->delta[copy] : 0;
    size_t bytes = nm_op_bytes(l, op, weight, by_expert);
    count(counts, known, delta, copy, bytes / (size_t)(threads > 0 ? threads : 1));
    return (struct nm_choice){known, delta, false};
}

bool nm_is_weight(const void *address) {
    pthread_mutex_lock(&nm_registry.lock);
    bool found = nm_registry_buffer_at((uintptr_t)address) != NULL;
    pthread_mutex_unlock(&nm_registry.lock);
    return found;
}

/* The weight at an address that an engine names without its op. A miss inside a buffer is news. */
static const struct nm_weight *weight_at(const struct nm_table *table, uintptr_t address,
                                         size_t bytes) {
    const struct nm_weight *known = nm_table_find(table, address);
    if (known != NULL && address + bytes <= known->start + known->bytes) return known;
    if (nm_table_in_buffer(table, address))
        atomic_store_explicit(&nm_news, true, memory_order_relaxed);
    return NULL;
}

/* An engine that names a weight with slices names one expert of it. */
static ptrdiff_t choose_slice(const struct nm_weight *known, uintptr_t address, size_t bytes) {
    struct nm_status_thread *counts = nm_thread_counts();
    size_t expert = nm_slice_at(known, address);
    int copy = usable_copy(known);
    bool all = true;
    if (counts->copy != copy) nm_thread_settle(counts, copy);
    count_slice(counts, known, expert, copy, bytes, &all);
    count_op(counts, all);
    return nm_slice_moved(known, expert);
}

ptrdiff_t nm_choose_at(struct nm_thread *thread, struct nm_module *engine, uintptr_t address,
                       size_t bytes, int threads, bool is_read_here) {
    if (!atomic_load_explicit(&engine->rows_proven, memory_order_relaxed) &&
        nm_is_weight((const void *)address)) {
        atomic_store(&engine->seams_proven, true);
        atomic_store(&engine->rows_proven, true);
    }
    thread->engine = engine;
    const struct nm_table *table = atomic_load_explicit(&nm_table, memory_order_acquire);
    const struct nm_weight *known = table == NULL ? NULL : weight_at(table, address, bytes);
    if (known == NULL) return 0;
    if (threads < 1 || threads > NM_MAX_CPUS) threads = 1;
    if (known->slices != NULL && is_read_here)
        return choose_slice(known, address, bytes / (size_t)threads);
    int copy = usable_copy(known);
    ptrdiff_t delta = copy >= 0 && is_read_here ? known->delta[copy] : 0;
    count(nm_thread_counts(), known, delta, copy, bytes / (size_t)threads);
    return delta;
}

const void *nm_moved_row(const struct nm_module *engine, const void *row) {
    const struct nm_table *table = atomic_load_explicit(&nm_table, memory_order_acquire);
    if (table == NULL || atomic_load(&engine->state) != NM_ENGINE_READY) return row;
    const struct nm_weight *known = weight_at(table, (uintptr_t)row, 1);
    int copy = known == NULL ? -1 : usable_copy(known);
    if (known != NULL && known->slices != NULL)
        return (const char *)row + nm_slice_moved(known, nm_slice_at(known, (uintptr_t)row));
    return copy >= 0 ? (const char *)row + known->delta[copy] : row;
}

static _Atomic unsigned long rows_checked, rows_by_owner;

void nm_check_owner(const struct nm_thread *thread, const void *row) {
    const struct nm_table *table = atomic_load_explicit(&nm_table, memory_order_acquire);
    const struct nm_weight *weight = table == NULL ? NULL : nm_table_find(table, (uintptr_t)row);
    if (weight == NULL || weight->state != NM_WEIGHT_SHARDED) return;
    int owner = nm_partition_owner((uintptr_t)row + 1 - weight->start, weight->slab_bytes,
                                   weight->rows, thread->pin_key & 0xffff);
    atomic_fetch_add_explicit(&rows_checked, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&rows_by_owner, owner == thread->pin_copy, memory_order_relaxed);
}

void nm_owners_checked(unsigned long *by_owner, unsigned long *rows) {
    *by_owner = atomic_load(&rows_by_owner);
    *rows = atomic_load(&rows_checked);
}

void nm_shadow_fill(struct nm_shadow *shadow, const struct nm_layout *l, const void *op,
                    ptrdiff_t delta) {
    const char *weight = nm_src(l, op, 0);
    memcpy(shadow->op, op, l->tensor_bytes);
    memcpy(shadow->weight, weight, l->tensor_bytes);
    char *moved = (char *)nm_data(l, weight) + delta;
    char *shadow_weight = shadow->weight;
    memcpy(shadow->weight + l->data, &moved, sizeof moved);
    memcpy(shadow->op + l->src0, &shadow_weight, sizeof shadow_weight);
}

void nm_dst_written(const struct nm_layout *l, const void *op) {
    const struct nm_table *table = atomic_load_explicit(&nm_table, memory_order_acquire);
    if (table == NULL) return;
    struct nm_weight *weight = nm_table_find(table, (uintptr_t)nm_data(l, op));
    if (weight == NULL || !nm_writes(l, op)) return;
    if (atomic_exchange(&weight->dead, true)) return;
    atomic_store(&nm_stale, true);
    atomic_store(&nm_news, true);
}
