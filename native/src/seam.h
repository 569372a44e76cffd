/* For the interposed functions: their visibility, and whose call it is. */
#ifndef NM_SEAM_H
#define NM_SEAM_H

#include "module.h"
#include "thread.h"

#define NM_EXPORT __attribute__((visibility("default")))

#define NM_CALLER() __builtin_extract_return_addr(__builtin_return_address(0))

/* The module that called, from the thread's memory where that fits. */
static inline struct nm_module *nm_caller_module(const void *caller) {
    struct nm_module *engine = nm_thread.engine;
    if (engine == NULL || !nm_module_contains(engine, caller)) engine = nm_module_at(caller);
    return nm_thread.called = engine;
}

/* Remembers a buffer as one of weights if the CPU reads it. marked: by the engine; without, it is
 * forgotten when an op writes to it. */
void nm_learn_buffer(const struct nm_module *module, const void *buffer, bool marked);

/* After a write to a part of the tensor: the replicas follow, if it is a weight. */
void nm_refresh_tensor(const struct nm_module *module, const void *tensor, size_t offset,
                       size_t bytes);

/* First sign of an engine in this process: opens the status page, once. */
void nm_engine_seen(void);

#endif
