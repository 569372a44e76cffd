#include "reader.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "config.h"

/* glibc 2.35 and later register a restartable-sequences area for every thread, in which the
 * kernel keeps the CPU's number current (rseq(2), struct rseq: cpu_id is its second word).
 * Its place relative to the thread pointer is exported as __rseq_offset; __rseq_size is 0 when
 * the registration did not happen. */
static ptrdiff_t rseq_offset;

#if defined(__x86_64__) || defined(__aarch64__)
void nm_reader_init(void) {
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    if (offset != NULL && size != NULL && *size != 0) rseq_offset = *offset;
}

static int current_cpu(void) {
    if (rseq_offset == 0) return sched_getcpu();
    const char *area = (const char *)__builtin_thread_pointer() + rseq_offset;
    int32_t cpu = *(const volatile int32_t *)(area + 4);
    return cpu >= 0 ? cpu : sched_getcpu();
}
#else
void nm_reader_init(void) {}
static int current_cpu(void) { return sched_getcpu(); }
#endif

/* In a rehearsal the threads take the pretend nodes in turn, so that each is read. */
static __thread int pretended = -1;

void nm_reader_pretend(int copy) { pretended = copy; }

static int pretend_copy(void) {
    static _Atomic unsigned next;
    if (pretended < 0)
        pretended = (int)(atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) %
                          (unsigned)nm_config.copies);
    return pretended;
}

int nm_reader_copy(void) {
    if (nm_config.rehearsal != 0) return pretend_copy();
    int cpu = current_cpu();
    return cpu >= 0 && cpu < NM_MAX_CPUS ? nm_config.copy_of_cpu[cpu] : -1;
}
