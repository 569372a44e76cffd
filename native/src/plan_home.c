#include <stdio.h>

#include "events.h"
#include "heal.h"
#include "plan.h"

static size_t ranges_of(const struct nm_plan *plan, struct nm_range *ranges) {
    size_t count = 0;
    for (size_t i = 0; i < plan->table->count; ++i)
        if (nm_wanted(plan, i))
            ranges[count++] = (struct nm_range){(const char *)plan->table->weights[i].start,
                                                plan->table->weights[i].bytes};
    return count;
}

/* What moved is always said; that something did not, and why, once for a model in many pieces. */
static void say_moved(const struct nm_copy *home, const struct nm_sample *before,
                      const struct nm_sample *after, int error) {
    static bool said[256];
    char what[192];
    snprintf(what, sizeof what,
             "the weights were not at home: %u of %u sampled pages on node %s before moving them, "
             "%u of %u after",
             before->local, before->pages, home->nodes_text, after->local, after->pages);
    if (nm_in_place(after)) {
        nm_note("notice", what, "", "");
        return;
    }
    if (!said[(unsigned char)error])
        nm_note("warn", what, nm_heal_reason(error),
                nm_mostly_local(after) ? "the home node reads them all the same"
                                       : "the home node gets a replica of its own");
    said[(unsigned char)error] = true;
}

/* Returns where the pages are afterwards. */
static struct nm_sample bring_home(const struct nm_range *ranges, size_t count,
                                   const struct nm_copy *home, const struct nm_sample *before) {
    struct nm_healing healing = nm_heal(ranges, count, nm_config.home, NM_PROBE_BYTES);
    struct nm_sample after = nm_sample_ranges(ranges, count, home->nodes, home->node_count);
    say_moved(home, before, &after, healing.error);
    return after;
}

void nm_plan_home(struct nm_plan *plan, struct nm_range *ranges) {
    plan->home_serves = false;
    if (nm_config.copy_home || nm_config.home_copy < 0) return;
    const struct nm_copy *home = &nm_config.copy[nm_config.home_copy];
    size_t count = ranges_of(plan, ranges);
    struct nm_sample sample = nm_sample_ranges(ranges, count, home->nodes, home->node_count);
    if (sample.error == 0 && !nm_in_place(&sample) && nm_config.heal)
        sample = bring_home(ranges, count, home, &sample);
    /* When the kernel refuses to say, a second copy at home could not be checked either. */
    plan->home_serves = sample.error != 0 || nm_mostly_local(&sample);
    if (!plan->home_serves && !nm_config.heal) {
        char what[128];
        snprintf(what, sizeof what,
                 "only %u of %u sampled pages of the weights are on home node %s", sample.local,
                 sample.pages, home->nodes_text);
        nm_note("info", what, "the home node gets a replica of its own", "");
    }
}

/* When every node reads a replica, GEMM never reads the primary again; where it is page cache, the
 * memory is better free. */
void nm_plan_release(const struct nm_plan *plan, struct nm_range *ranges) {
    if (nm_config.copy_home || nm_config.home_copy < 0 || plan->home_serves || !nm_config.heal)
        return;
    size_t count = 0;
    for (size_t i = 0; i < plan->table->count; ++i)
        if (nm_wanted(plan, i) && plan->table->weights[i].state == NM_WEIGHT_MIRRORED)
            ranges[count++] = (struct nm_range){(const char *)plan->table->weights[i].start,
                                                plan->table->weights[i].bytes};
    size_t released = nm_release_page_cache(ranges, count);
    if (released == 0) return;
    bool small = released < 1 << 20;
    char what[96];
    snprintf(what, sizeof what, "released %zu %s of page cache behind the engine's own weights",
             released >> (small ? 10 : 20), small ? "KiB" : "MiB");
    nm_note("notice", what, "every node reads its replica instead", "");
}
