#include "pin.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"
#include "filter.h"
#include "partition.h"
#include "reader.h"
#include "refusal.h"
#include "shard_say.h"
#include "sys.h"

static _Atomic bool refused;

void nm_pin_thread(struct nm_thread *thread, int ith, int nth) {
    int key = ith << 16 | nth;
    if (thread->pin_key != key) {
        thread->pin_bound = false;
        thread->pin_copy = nm_partition_copy(ith, nth);
        thread->pin_key = key;
        if (nm_config.rehearsal != 0) nm_reader_pretend(thread->pin_copy);
    }
    if (nm_reader_copy() == thread->pin_copy || nm_filter_noticed()) return;
    if (atomic_load_explicit(&refused, memory_order_relaxed)) return;
    if (thread->pin_bound) nm_shard_pin_undone();
    int error = nm_run_on_copy(nm_config.copy_of_cpu, NM_MAX_CPUS, thread->pin_copy);
    thread->pin_bound = error == 0;
    if (error == 0) return;
    atomic_store_explicit(&refused, true, memory_order_relaxed);
    nm_say_refused(NM_AFFINITY, error, "threads are not bound to nodes, and read from anywhere");
}

void nm_pin_keep_mask(struct nm_thread *thread) {
    if (nm_filter_noticed()) return;
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof thread->mask, thread->mask);
    thread->mask_bytes = bytes > 0 ? (unsigned)bytes : 0;
}

void nm_pin_give_back_mask(struct nm_thread *thread) {
    if (thread->mask_bytes == 0 || nm_filter_noticed()) return;
    (void)!syscall(SYS_sched_setaffinity, 0, (size_t)thread->mask_bytes, thread->mask);
    thread->pin_key = 0; /* and so not bound any more */
}
