#include "unwritten.h"

#include <pthread.h>
#include <stdbool.h>

#include "config.h"
#include "discover.h"
#include "first_touch.h"
#include "registry.h"

/* While a model is loaded no graph was computed yet, and the layout is measured for the library
 * that loads it. NULL where it can't be. Under the registry's lock. */
static const struct nm_layout *layout_of(const struct nm_module *caller) {
    static struct nm_layout layout;
    static const struct nm_module *measured, *failed;
    static const enum nm_symbol needed[] = {
        NM_SYM_ggml_init,          NM_SYM_ggml_free,
        NM_SYM_ggml_new_tensor_2d, NM_SYM_ggml_mul_mat,
        NM_SYM_ggml_add,           NM_SYM_ggml_get_data,
        NM_SYM_ggml_op_name,       NM_SYM_ggml_tensor_overhead,
    };
    if (measured == caller) return &layout;
    if (failed == caller) return NULL;
    failed = caller;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; ++i)
        if (caller->real[needed[i]] == NULL) return NULL;
    layout = (struct nm_layout){0};
    if (nm_layout_measure(&layout, caller) != NULL) return NULL;
    measured = caller;
    failed = NULL;
    return &layout;
}

/* Only buffers that are not the host's: those are written by tensor_set and by nothing else. */
static bool find_shape(struct nm_module *caller, const void *tensor, struct nm_shape *shape) {
    const void *(*data_of)(const void *) = caller->real[NM_SYM_ggml_get_data];
    if (data_of == NULL) return false;
    uintptr_t address = (uintptr_t)data_of(tensor);
    pthread_mutex_lock(&nm_registry.lock);
    const struct nm_buffer *buffer = nm_registry_buffer_at(address);
    const struct nm_layout *layout =
        buffer != NULL && !buffer->host && !buffer->doubtful ? layout_of(caller) : NULL;
    struct nm_candidate found;
    if (layout != NULL) {
        found = nm_candidate_of(caller, layout, tensor, buffer);
        *shape = (struct nm_shape){found.start, found.bytes, found.slab_bytes, found.rows};
    }
    pthread_mutex_unlock(&nm_registry.lock);
    return layout != NULL;
}

void nm_before_set(struct nm_module *caller, const void *tensor, size_t offset) {
    struct nm_shape shape;
    if (!nm_config.active || !nm_config.shard || offset != 0) return;
    if (find_shape(caller, tensor, &shape)) nm_first_touch(&shape);
}
