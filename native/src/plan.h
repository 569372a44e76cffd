/* One build on its way: the table it makes, which of its weights are to be copied, and to where. */
#ifndef NM_PLAN_H
#define NM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "fill.h"
#include "sample.h"
#include "table.h"

struct nm_plan {
    struct nm_table *table;
    bool *is_new; /* per weight of the table: seen for the first time */
    bool home_serves;
    bool counted;     /* the second plan of an --adapt: what is short was said by the first */
    char reason[256]; /* why something is not mirrored; the last cause wins */
    struct nm_fill fills[NM_MAX_COPIES];
    struct nm_piece *pieces[NM_MAX_COPIES];
    size_t fill_count;
};

/* Below the first share of sampled pages on its node a copy is of no use there; below the second,
 * where reports begin to call it out of place, what lies elsewhere is moved. */
enum { NM_LOCAL_PERCENT = 90, NM_IN_PLACE_PERCENT = 99 };

static inline bool nm_mostly_local(const struct nm_sample *sample) {
    return (uint64_t)sample->local * 100 >= (uint64_t)sample->pages * NM_LOCAL_PERCENT;
}

static inline bool nm_in_place(const struct nm_sample *sample) {
    return (uint64_t)sample->local * 100 >= (uint64_t)sample->pages * NM_IN_PLACE_PERCENT;
}

/* This build is to mirror the weight. */
static inline bool nm_wanted(const struct nm_plan *plan, size_t index) {
    return plan->is_new[index] && plan->table->weights[index].state != NM_WEIGHT_SMALL;
}

static inline bool nm_needs_replica(const struct nm_plan *plan, int copy) {
    return copy != nm_config.home_copy || !plan->home_serves;
}

/* What is copied in one piece: a weight or, where it has slices, one of its experts. */
static inline size_t nm_part_count(const struct nm_weight *weight) {
    return weight->slices == NULL ? 1 : weight->slices->count;
}

static inline struct nm_range nm_part(const struct nm_weight *weight, size_t part) {
    if (weight->slices == NULL)
        return (struct nm_range){(const char *)weight->start, weight->bytes};
    return (struct nm_range){(const char *)weight->start + part * weight->slab_bytes,
                             weight->slab_bytes};
}

static inline bool nm_part_wanted(const struct nm_weight *weight, size_t part) {
    return weight->slices == NULL || weight->slices->wanted[part];
}

static inline ptrdiff_t *nm_part_delta(const struct nm_weight *weight, size_t part, int copy) {
    return weight->slices == NULL ? &weight->delta[copy]
                                  : nm_slice_delta(weight->slices, part, copy);
}

/* Every copy serves the part. */
static inline bool nm_part_mirrored(const struct nm_weight *weight, size_t part) {
    if (weight->slices == NULL) return weight->state == NM_WEIGHT_MIRRORED;
    return weight->state == NM_WEIGHT_SLICED && weight->slices->wanted[part];
}

/* Parts of all the table's weights. */
size_t nm_count_parts(const struct nm_table *table);

/* build.c: carries the plan out under the registry's lock, but for publishing its table. */
void nm_plan_mirror(struct nm_plan *plan);
void nm_plan_publish(struct nm_plan *plan);
void nm_plan_free(struct nm_plan *plan);

/* adapt.c: the experts among what the plan wants are counted first, as far as that is asked for
 * and each has an address of its own; the plan wants them no more. Returns whether there were. */
bool nm_plan_postpone_experts(struct nm_plan *plan);

/* plan_fit.c: takes from the plan what does not fit into the nodes' memory, and says so. */
void nm_plan_fit(struct nm_plan *plan);

/* plan_home.c: decides whether the home node reads the primary where it lies, after moving it
 * there when it must and may be. `ranges` has room for every weight. */
void nm_plan_home(struct nm_plan *plan, struct nm_range *ranges);

/* plan_home.c: gives back the page cache behind a primary that GEMM no longer reads. */
void nm_plan_release(const struct nm_plan *plan, struct nm_range *ranges);

#endif
