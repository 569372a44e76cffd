/* Loading, forking, and what tests may ask. Without NUMAMIRROR_ABI the shim only passes on. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "events.h"
#include "filter.h"
#include "first_touch.h"
#include "lock.h"
#include "plan.h"
#include "reader.h"
#include "redirect.h"
#include "registry.h"
#include "seam.h"
#include "static_program.h"
#include "status.h"
#include "upload.h"

static const char *from_environment(const char *name) { return getenv(name); }

static void begin(void) {
    nm_config_parse(&nm_config, from_environment);
    nm_reader_init();
    if (!nm_config.active) return;
    nm_filter_init();
    nm_thread_init();
    nm_static_adopt();
}

/* A program begins with an errno of 0. */
__attribute__((constructor)) static void load(void) {
    int saved = errno;
    begin();
    errno = saved;
}

__attribute__((destructor)) static void unload(void) {
    unsigned long by_owner, rows;
    nm_owners_checked(&by_owner, &rows);
    if (nm_config.check_owners) nm_event("owners", "\"by_owner\":%lu,\"rows\":%lu", by_owner, rows);
}

/* All locks of the shim, in the order in which one is taken under another. Only under the first are
 * functions of the engine called. */
static pthread_mutex_t *const locks[] = {&nm_registry.lock, &nm_first_touch_lock, &nm_targets_lock,
                                         &nm_modules_lock};
enum { LOCKS = sizeof locks / sizeof *locks };

/* Not the one that this thread holds already: an engine that aborts in a function which the shim
 * has called under it forks, to show where it was. */
static __thread bool taken[LOCKS];
static __thread bool is_building; /* another thread, whatever the registry is like meanwhile */

/* The first lock is held for as long as replicas are filled, which can be minutes: a fork does not
 * wait for that. All others are held for moments. */
static int take_first_lock(void) {
    int error = pthread_mutex_trylock(locks[0]);
    if (error != EBUSY) return error;
    struct timespec until = nm_clock_in_100_ms(CLOCK_REALTIME);
    return pthread_mutex_timedlock(locks[0], &until);
}

static void before_fork(void) {
    int error = take_first_lock();
    taken[0] = error == 0;
    is_building = error == ETIMEDOUT;
    for (int i = 1; i < LOCKS; ++i) taken[i] = pthread_mutex_lock(locks[i]) == 0;
}

static void in_parent(void) {
    for (int i = LOCKS; i-- > 0;)
        if (taken[i]) pthread_mutex_unlock(locks[i]);
}

/* The child may go on computing from its copies of the replicas, but not under its parent's
 * name: it counts for nobody and sends nothing. Its locks are new, since their owner is a thread of
 * the parent. What nobody will finish in it is left alone: each seam only passes on. */
static void in_child(void) {
    if (is_building) {
        nm_config.active = false;
        nm_module_pause(true);
    }
    nm_config.events[0] = '\0';
    nm_config.log = false;
    nm_status_leave();
    nm_thread_leave();
    in_parent();
    for (int i = 0; i < LOCKS; ++i) *locks[i] = (pthread_mutex_t)NM_LOCK_INITIALIZER;
}

/* What pthread_atfork is in glibc. A preload also reaches musl programs below a script, and a
 * strong reference to what musl lacks would keep them from starting. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern void *__dso_handle;

static void open_once(void) {
    if (__register_atfork != NULL)
        __register_atfork(before_fork, in_parent, in_child, __dso_handle);
    pthread_mutex_lock(&nm_registry.lock); /* another thread may write to the page of before */
    nm_status_open();
    pthread_mutex_unlock(&nm_registry.lock);
}

void nm_engine_seen(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (nm_config.active && !nm_filter_added()) pthread_once(&once, open_once);
}

/* For tests: visits the weights that have replicas, or are spread. Returns their number. */
NM_EXPORT int numamirror_test_extents(void (*visit)(void *context, const void *start, size_t bytes),
                                      void *context);

NM_EXPORT int numamirror_test_extents(void (*visit)(void *context, const void *start, size_t bytes),
                                      void *context) {
    pthread_mutex_lock(&nm_registry.lock);
    const struct nm_table *table = atomic_load(&nm_table);
    int count = 0;
    for (size_t i = 0; table != NULL && i < table->count; ++i) {
        const struct nm_weight *weight = &table->weights[i];
        for (size_t k = 0; k < nm_part_count(weight); ++k) {
            if (!nm_part_mirrored(weight, k) && weight->state != NM_WEIGHT_INTERLEAVED) continue;
            struct nm_range part = nm_part(weight, k);
            visit(context, part.start, part.bytes);
            ++count;
        }
    }
    pthread_mutex_unlock(&nm_registry.lock);
    return count;
}

/* For tests and bench/: from the next graph on, mirrored weights are read from their replicas (on)
 * or, with all else the same, from the primaries (off). Call between graphs. */
NM_EXPORT void numamirror_test_set_redirect(int on);

NM_EXPORT void numamirror_test_set_redirect(int on) { nm_config.no_redirect = on == 0; }

/* For bench/: under shard, the engine's division of rows is fixed (on), or its threads steal chunks
 * of each other's as they do without us (off). Call between graphs. */
NM_EXPORT void numamirror_test_set_static(int on);

NM_EXPORT void numamirror_test_set_static(int on) { nm_config.stealing = on == 0; }

/* For bench/: engines are attended to (on), or every seam only passes on (off). Call between
 * graphs.
 */
NM_EXPORT void numamirror_test_set_engines(int on);

NM_EXPORT void numamirror_test_set_engines(int on) { nm_module_pause(on == 0); }
