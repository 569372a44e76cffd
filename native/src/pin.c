#include "pin.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"
#include "filter.h"
#include "partition.h"
#include "reader.h"
#include "refusal.h"
#include "shard_say.h"

enum { MASK_WORDS = NM_MAX_CPUS / (8 * sizeof(unsigned long)) };

/* Of each copy: the CPUs that read it, and of these one for each physical core. */
static struct masks {
    unsigned long cpus[MASK_WORDS], cores[MASK_WORDS];
} masks[NM_MAX_COPIES];

static void make_masks(void) {
    for (unsigned cpu = 0; cpu < NM_MAX_CPUS; ++cpu) {
        int copy = nm_config.copy_of_cpu[cpu];
        if (copy < 0) continue;
        enum { BITS = 8 * sizeof(unsigned long) };
        unsigned long bit = 1UL << cpu % BITS;
        masks[copy].cpus[cpu / BITS] |= bit;
        if (nm_config.is_core[cpu]) masks[copy].cores[cpu / BITS] |= bit;
    }
}

static int bind_to(int copy, bool with_siblings) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (nm_config.rehearsal != 0) return 0; /* pretend nodes have no CPUs */
    pthread_once(&once, make_masks);
    const unsigned long *mask = with_siblings ? masks[copy].cpus : masks[copy].cores;
    return syscall(SYS_sched_setaffinity, 0, sizeof masks[copy].cpus, mask) == 0 ? 0 : errno;
}

static _Atomic bool refused;

/* A thread that comes to a place in the pool is bound at once; later only when something has taken
 * it to another node. */
void nm_pin_thread(struct nm_thread *thread, int ith, int nth) {
    int key = ith << 16 | nth;
    bool arrives = thread->pin_key != key;
    if (arrives) {
        thread->pin_copy = nm_partition_copy(ith, nth);
        thread->pin_key = key;
        if (nm_config.rehearsal != 0) nm_reader_pretend(thread->pin_copy);
    }
    if ((!arrives && nm_reader_copy() == thread->pin_copy) || nm_filter_noticed()) return;
    if (atomic_load_explicit(&refused, memory_order_relaxed)) return;
    if (!arrives) nm_shard_pin_undone();
    int error = bind_to(thread->pin_copy, nm_partition_needs_siblings(thread->pin_copy, nth));
    if (error == 0) return;
    atomic_store_explicit(&refused, true, memory_order_relaxed);
    nm_say_refused(NM_AFFINITY, error, "threads are not bound to nodes, and read from anywhere");
}

void nm_pin_keep_cpus(struct nm_cpus *cpus) {
    cpus->bytes = 0;
    if (nm_filter_noticed()) return;
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof cpus->mask, cpus->mask);
    if (bytes > 0) cpus->bytes = (size_t)bytes;
}

void nm_pin_give_back_cpus(const struct nm_cpus *cpus, struct nm_thread *thread) {
    if (cpus->bytes == 0 || nm_filter_noticed()) return;
    (void)!syscall(SYS_sched_setaffinity, 0, cpus->bytes, cpus->mask);
    thread->pin_key = 0; /* and so not bound any more */
}
