/* The seams of computing: a graph begins, and each thread takes up each op. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapt.h"
#include "build.h"
#include "config.h"
#include "discover.h"
#include "events.h"
#include "observe.h"
#include "pin.h"
#include "reads.h"
#include "redirect.h"
#include "registry.h"
#include "seam.h"
#include "shard.h"
#include "shard_say.h"
#include "status.h"

/* struct ggml_compute_params of ggml-cpu begins so in every version. */
struct compute_params {
    int ith, nth;
};

/* ---- the engine, at its first graph ---- */

static void say(const struct nm_module *engine, const char *what, const char *why,
                const char *remedy) {
    char named[320], text[400];
    nm_named(engine->path, engine->real, named, sizeof named);
    snprintf(text, sizeof text, "%s: %s", named, what);
    nm_note("warn", text, why, remedy);
}

static void say_unreadable(const struct nm_module *engine, const char *what) {
    char why[160], reason[256];
    snprintf(why, sizeof why, "the shim could not find %s in it", what);
    say(engine, "this engine cannot be mirrored", why, "report it with that version");
    snprintf(reason, sizeof reason, "could not find %s in the engine's library", what);
    /* What the page says of another engine's weights stands. */
    if (nm_status->gemm_bytes == 0) nm_status_set(NM_OFF, reason);
}

static bool readable(struct nm_module *engine) {
    int state = atomic_load_explicit(&engine->state, memory_order_acquire);
    if (state != NM_ENGINE_NEW) return state == NM_ENGINE_READY;
    nm_engine_seen();
    pthread_mutex_lock(&nm_registry.lock);
    state = atomic_load(&engine->state);
    if (state == NM_ENGINE_NEW) {
        struct nm_layout layout = {0};
        const char *failed = nm_lacks(engine->real);
        if (failed == NULL) failed = nm_layout_measure(&layout, engine);
        engine->layout = layout;
        state = failed == NULL ? NM_ENGINE_READY : NM_ENGINE_UNREADABLE;
        if (failed != NULL) say_unreadable(engine, failed);
        atomic_store_explicit(&engine->state, state, memory_order_release);
    }
    pthread_mutex_unlock(&nm_registry.lock);
    return state == NM_ENGINE_READY;
}

static void announce(struct nm_module *engine) {
    if (atomic_exchange(&engine->announced, true)) return;
    pthread_mutex_lock(&nm_registry.lock);
    nm_status_begin();
    snprintf(nm_status->engine, sizeof nm_status->engine, "%s", engine->path);
    nm_status_end();
    pthread_mutex_unlock(&nm_registry.lock);
    char path[600];
    nm_event("engine", "\"library\":\"%s\",\"tensor_bytes\":%zu",
             nm_json_escape(path, sizeof path, engine->path), engine->layout.tensor_bytes);
}

/* ---- weights that a graph brings ---- */

#define BOUND_INSIDE "(built with LTO, -Bsymbolic or hidden symbols)"
#define NO_SEAM "the engine's ops do not pass the functions that the shim interposes " BOUND_INSIDE
#define NO_ROW_SEAM "the engine reads its experts past the shim: dense weights only"
#define OPEN_BUILD "use a build without these"

static void say_closed(const struct nm_module *engine, bool dense) {
    const char *op = engine->has_op_seam ? nm_symbol_name(NM_SYM_ggml_cpu_extra_compute_forward)
                                         : nm_symbol_name(NM_SYM_iqk_mul_mat);
    char why[200];
    snprintf(why, sizeof why, "its calls of %s do not reach the shim " BOUND_INSIDE,
             dense ? "the ggml_vec_dot_ functions" : op);
    say(engine, dense ? "its experts are not mirrored" : "no replicas were made", why, OPEN_BUILD);
}

/* In a program, what divides the rows is compiled into its callers. */
static bool can_shard(const struct nm_module *engine) {
    return engine->has_op_seam && !engine->inside;
}

static void say_no_shard(const struct nm_module *engine) {
    const char *why = engine->inside
                          ? "the functions that divide its rows are compiled into their callers"
                          : "it divides the rows among its threads where the shim cannot reach "
                            "(ik_llama.cpp does)";
    say(engine, "shard is not possible with this engine", why,
        engine->inside ? "use a build with shared libraries (-DBUILD_SHARED_LIBS=ON)"
                       : "use --strategy mirror or --strategy interleave");
}

static void build_found(struct nm_module *engine, struct nm_finding *finding) {
    bool dense = atomic_load(&engine->seams_proven);
    bool rows = atomic_load(&engine->rows_proven) || finding->expert_count == 0;
    announce(engine);
    if (finding->expert_count > 0) nm_reads_expect();
    if (!nm_config.interleave && (!dense || !rows)) say_closed(engine, dense);
    if (nm_config.shard && !can_shard(engine)) {
        say_no_shard(engine);
        nm_build(finding->all, finding->dense_count + finding->expert_count, false,
                 "shard is not possible with this engine");
        return;
    }
    if ((dense && rows) || nm_config.interleave) { /* pages are spread whoever reads them */
        const char *later =
            nm_config.shard ? "rows are placed when the first token is decoded" : "";
        nm_build(finding->all, finding->dense_count + finding->expert_count, true, later);
        return;
    }
    if (finding->dense_count > 0)
        nm_build(finding->all, finding->dense_count, dense, dense ? "" : NO_SEAM);
    if (finding->expert_count > 0)
        nm_build(finding->experts, finding->expert_count, rows, rows ? "" : NO_ROW_SEAM);
}

static bool all_proven(const struct nm_module *engine, const struct nm_finding *finding) {
    return atomic_load(&engine->seams_proven) &&
           (finding->expert_count == 0 || atomic_load(&engine->rows_proven));
}

/* ---- the seams ---- */

/* A MUL_MAT_ID has ended in this thread; if rows of it came by, the row seams are real. */
static void close_range(struct nm_thread *thread) {
    if (thread->range_hits > 0) {
        atomic_store_explicit(&thread->engine->rows_proven, true, memory_order_relaxed);
        if (thread->range_delta != 0) nm_thread_counts()->row_hits += thread->range_hits;
    }
    thread->range_bytes = thread->range_hits = 0;
    thread->range_delta = 0;
    thread->sliced = NULL;
}

static int compute(struct nm_module *engine, int (*real)(void *, void *), void *graph, void *plan) {
    struct nm_thread *thread = &nm_thread;
    struct nm_module *before = thread->engine;
    thread->engine = engine;
    struct nm_cpus own;
    if (nm_config.pin) nm_pin_keep_cpus(&own);
    int status = real(graph, plan);
    if (nm_config.pin) nm_pin_give_back_cpus(&own, thread);
    if (thread->range_bytes > 0) close_range(thread);
    thread->engine = before;
    return status;
}

/* Rows are placed for decoding, whose thread count can differ from that of a long prompt: after the
 * first graph with one token. */
static void place_rows(struct nm_module *engine, void *graph) {
    int threads = atomic_load_explicit(&engine->threads, memory_order_relaxed);
    if (threads == atomic_load(&engine->placed_for) || !nm_is_decode(engine, graph)) return;
    atomic_store(&engine->placed_for, threads);
    nm_shard_place(threads);
}

static void observe_reads(struct nm_module *engine, void *graph, bool new_weights) {
    nm_observe(new_weights);
    if (nm_is_decode(engine, graph)) nm_observe_token(nm_graph_bytes(engine, graph));
}

/* What the graph brings, if there is news. A model can have several graphs: news that is not of
 * this one is kept for the next. */
static struct nm_finding look_for_news(struct nm_module *engine, void *graph) {
    struct nm_finding finding = {0};
    if (!atomic_exchange(&nm_news, false)) return finding;
    finding = nm_discover(engine, graph);
    if (finding.dense_count + finding.expert_count == 0) atomic_store(&nm_news, true);
    return finding;
}

/* Weights are built before the graph that brings them. In an engine whose seams have not been seen
 * to work, the graph is computed first, from the primaries, and shows it; so are weights of a
 * second graph, whose ops are what tells of them. */
static int compute_and_mirror(struct nm_module *engine, int (*real)(void *, void *), void *graph,
                              void *plan) {
    bool looked = atomic_load(&nm_news);
    struct nm_finding finding = look_for_news(engine, graph);
    bool any = finding.dense_count + finding.expert_count > 0;
    bool later = any && !all_proven(engine, &finding);
    if (any && !later) build_found(engine, &finding);
    nm_reads_learn(engine, graph);
    int status = compute(engine, real, graph, plan);
    if (!looked) {
        finding = look_for_news(engine, graph);
        later = finding.dense_count + finding.expert_count > 0;
    }
    if (later) build_found(engine, &finding);
    any = any || later;
    if (any && nm_config.shard) atomic_store(&engine->placed_for, 0);
    nm_finding_free(&finding);
    nm_adapt();
    if (nm_config.shard && can_shard(engine)) place_rows(engine, graph);
    if (nm_config.pin) nm_shard_say_noted();
    if (nm_config.observe) observe_reads(engine, graph, any);
    return status;
}

NM_EXPORT int ggml_graph_compute(void *graph, void *plan) {
    struct nm_module *caller = nm_caller_module(NM_CALLER());
    int (*real)(void *, void *) = (int (*)(void *, void *))caller->real[NM_SYM_ggml_graph_compute];
    if (real == NULL) return -1; /* GGML_STATUS_FAILED */
    /* Ops are called from the library that defines the real function, whoever called us. */
    struct nm_module *engine = nm_module_at((const void *)real);
    if (!nm_config.active || !readable(engine)) return real(graph, plan);
    int saved = errno;
    nm_look_for_caches(engine, graph);
    nm_registry_enter();
    int status = compute_and_mirror(engine, real, graph, plan);
    nm_registry_leave();
    errno = saved;
    return status;
}

static void look_for_proof(struct nm_module *engine, const void *op) {
    const void *weight = nm_src(&engine->layout, op, 0);
    if (weight != NULL && nm_is_weight(nm_data(&engine->layout, weight)))
        atomic_store(&engine->seams_proven, true);
}

/* The rows of the op's weight are read `delta` bytes further on, until the next op. */
static void open_range(const struct nm_module *engine, const void *op, ptrdiff_t delta) {
    const void *weight = nm_src(&engine->layout, op, 0);
    nm_thread.range_start = (uintptr_t)nm_data(&engine->layout, weight);
    nm_thread.range_bytes = nm_tensor_span(&engine->layout, weight);
    nm_thread.range_delta = delta;
}

/* Each expert lies somewhere: the range is that of the one whose row is asked for. */
static void open_slices(const struct nm_weight *weight) {
    nm_thread.sliced = weight;
    nm_next_slice(&nm_thread, weight->start);
}

typedef bool extra_compute(void *params, void *op);

static bool mul_mat(struct nm_module *engine, extra_compute *real, void *params, void *op,
                    ptrdiff_t delta) {
    if (delta == 0) {
        if (nm_config.check_owners) open_range(engine, op, 0);
        return real(params, op);
    }
    void (*plain)(void *, void *) = engine->real[NM_SYM_ggml_compute_forward_mul_mat];
    struct nm_shadow shadow;
    nm_shadow_fill(&shadow, &engine->layout, op, delta);
    if (!real(params, shadow.op)) plain(params, shadow.op);
    return true;
}

/* The engine's own MUL_MAT_ID is static; when it follows, its rows pass the row seams, which find
 * the range here. */
static bool mul_mat_id(struct nm_module *engine, extra_compute *real, void *params, void *op,
                       struct nm_choice choice) {
    bool done;
    if (choice.delta == 0) {
        done = real(params, op);
    } else {
        struct nm_shadow shadow;
        nm_shadow_fill(&shadow, &engine->layout, op, choice.delta);
        done = real(params, shadow.op);
    }
    if (done) {
        atomic_store_explicit(&engine->rows_proven, true, memory_order_relaxed);
        return true;
    }
    if (choice.by_slice)
        open_slices(choice.known);
    else
        open_range(engine, op, choice.delta);
    return false;
}

NM_EXPORT bool ggml_cpu_extra_compute_forward(void *params, void *op) {
    struct nm_thread *thread = &nm_thread;
    struct nm_module *engine = nm_caller_module(NM_CALLER());
    extra_compute *real = (extra_compute *)engine->real[NM_SYM_ggml_cpu_extra_compute_forward];
    if (real == NULL) return false;
    thread->engine = engine; /* the next call finds it here */
    if (atomic_load_explicit(&engine->state, memory_order_acquire) != NM_ENGINE_READY)
        return real(params, op);
    if (thread->range_bytes > 0) close_range(thread);
    thread->sharded = NULL;
    int code = nm_op(&engine->layout, op);
    bool by_expert = code == engine->layout.mul_mat_id;
    nm_dst_written(&engine->layout, op);
    if (!by_expert && code != engine->layout.mul_mat) return real(params, op);
    if (!atomic_load_explicit(&engine->seams_proven, memory_order_relaxed))
        look_for_proof(engine, op);
    const struct compute_params *share = params;
    int threads = share->nth;
    if (nm_config.pin) {
        nm_pin_thread(thread, share->ith, threads);
        if (share->ith == 0) atomic_store_explicit(&engine->threads, threads, memory_order_relaxed);
    }
    struct nm_choice choice = nm_choose(thread, engine, op, by_expert, threads);
    if (choice.by_slice && share->ith == 0 && choice.known->state == NM_WEIGHT_COUNTED)
        nm_reads_count(&engine->layout, op, choice.known);
    return by_expert ? mul_mat_id(engine, real, params, op, choice)
                     : mul_mat(engine, real, params, op, choice.delta);
}
