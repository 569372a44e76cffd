/* The seams that make the engine's partition of rows static, for shard. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "config.h"
#include "seam.h"

/* With NUMA on, ggml's GEMM gives each thread fixed rows and steals no chunks. */
NM_EXPORT bool ggml_is_numa(void) {
    if (nm_config.shard && !nm_config.stealing) return true;
    bool (*real)(void) = nm_caller_module(NM_CALLER())->real[NM_SYM_ggml_is_numa];
    return real != NULL && real();
}

/* Called where chunks are taken in no fixed order all the same: what this thread reads of the
 * weight is then not known. Kernels of repacked weights ask too, but have no chunk left to give. */
NM_EXPORT int ggml_threadpool_chunk_add(void *pool, int value) {
    struct nm_weight *weight = nm_thread.sharded;
    if (weight != NULL && weight->host)
        atomic_store_explicit(&weight->stolen, true, memory_order_relaxed);
    int (*real)(void *, int) =
        nm_caller_module(NM_CALLER())->real[NM_SYM_ggml_threadpool_chunk_add];
    return real(pool, value);
}

/* ggml then also resets its caller's affinity after a graph, to a mask whose size it never set:
 * 0. Refused by the real one, and warned of in every graph. */
NM_EXPORT int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *mask) {
    if (nm_config.shard && bytes == 0) return 0;
    static int (*_Atomic real)(pthread_t, size_t, const cpu_set_t *);
    int (*function)(pthread_t, size_t, const cpu_set_t *) = real;
    if (function == NULL)
        real = function = (int (*)(pthread_t, size_t, const cpu_set_t *))dlsym(
            RTLD_NEXT, "pthread_setaffinity_np");
    return function == NULL ? ENOSYS : function(thread, bytes, mask);
}
