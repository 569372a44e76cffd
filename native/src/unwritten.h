/* Weights that the engine is about to write into memory of its own: repacked, or for AMX. */
#ifndef NM_UNWRITTEN_H
#define NM_UNWRITTEN_H

#include <stddef.h>

#include "module.h"

/* Call before ggml_backend_tensor_set: a weight that is written for the first time gets its memory
 * where shard will want it. */
void nm_before_set(struct nm_module *caller, const void *tensor, size_t offset);

#endif
