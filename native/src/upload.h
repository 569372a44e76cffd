/*
 * Uploads of weights to GPUs read the replica on the GPU's own node. A GPU on the home node, one
 * whose node is unknown, and a primary that is pinned where a replica can't be: the engine's own
 * source. NUMAMIRROR_SRC_NODE forces a node, for tests.
 */
#ifndef NM_UPLOAD_H
#define NM_UPLOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "module.h"

struct nm_upload {
    const void *from;
    bool counted; /* as a reader of the table, until nm_upload_end */
};

/* What the engine is about to copy from `data` into the tensor, through the backend or, NULL,
 * through the tensor's buffer: where to read it instead. Pair with nm_upload_end behind the call.
 */
struct nm_upload nm_upload_begin(struct nm_module *module, const void *backend, const void *tensor,
                                 const void *data, size_t bytes);
void nm_upload_end(const struct nm_upload *upload);

/* Held while a device is added to the list; for init.c alone. */
extern pthread_mutex_t nm_targets_lock;

#endif
