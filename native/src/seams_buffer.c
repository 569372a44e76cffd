/* The seams through which the shim learns of the engine's weights: made, cleared, freed. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "config.h"
#include "interleave.h"
#include "redirect.h"
#include "registry.h"
#include "scratch.h"
#include "seam.h"

enum { USAGE_WEIGHTS = 1, USAGE_COMPUTE = 2, UNKNOWN = -1, DEVICE_CPU = 0 }; /* ggml-backend.h */

static int owner_of(const struct nm_module *m, const void *type) {
    const void *(*device_of)(const void *) = m->real[NM_SYM_ggml_backend_buft_get_device];
    int (*type_of)(const void *) = m->real[NM_SYM_ggml_backend_dev_type];
    const void *device = device_of != NULL ? device_of(type) : NULL;
    return device != NULL && type_of != NULL ? type_of(device) : UNKNOWN;
}

/* Memory that CPU kernels read: plain, mapped, repacked and AMX buffers belong to the CPU device,
 * pinned ones to a GPU's but say that they are host memory. The base of what lies on a GPU is not
 * even an address. */
void nm_learn_buffer(const struct nm_module *m, const void *buffer, bool marked) {
    const void *(*base_of)(const void *) = m->real[NM_SYM_ggml_backend_buffer_get_base];
    size_t (*size_of)(const void *) = m->real[NM_SYM_ggml_backend_buffer_get_size];
    const void *(*type_of)(const void *) = m->real[NM_SYM_ggml_backend_buffer_get_type];
    bool (*is_host)(const void *) = m->real[NM_SYM_ggml_backend_buft_is_host];
    bool (*is_several)(const void *) = m->real[NM_SYM_ggml_backend_buffer_is_multi_buffer];
    if (base_of == NULL || size_of == NULL || type_of == NULL) return;
    size_t bytes = size_of(buffer);
    /* To ask one of these for its base can end the engine. What is made of several passes its usage
     * on to them, and they come here by themselves. */
    if (bytes == 0 || (is_several != NULL && is_several(buffer))) return;
    const void *type = type_of(buffer);
    int owner = owner_of(m, type);
    bool host = is_host != NULL && is_host(type);
    if (!host && owner != DEVICE_CPU) return;
    const char *(*name_of)(const void *) = m->real[NM_SYM_ggml_backend_buft_name];
    const char *name = name_of != NULL ? name_of(type) : NULL;
    if (name != NULL && strstr(name, "AMX") != NULL) atomic_store(&nm_amx_seen, true);
    int saved = errno;
    nm_engine_seen();
    nm_registry_add_buffer(buffer, base_of(buffer), bytes, host);
    if (nm_config.interleave && marked) nm_interleave_ahead((uintptr_t)base_of(buffer), bytes);
    nm_registry_describe_buffer(buffer, !marked, host && owner > DEVICE_CPU);
    errno = saved;
}

NM_EXPORT void ggml_backend_buffer_set_usage(void *buffer, int usage) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *, int) = m->real[NM_SYM_ggml_backend_buffer_set_usage];
    if (real != NULL) real(buffer, usage);
    if (!nm_config.active || buffer == NULL) return;
    if (usage == USAGE_COMPUTE) nm_scratch_computes(buffer);
    if (usage != USAGE_WEIGHTS) return;
    nm_scratch_drop(buffer);
    nm_learn_buffer(m, buffer, true);
}

NM_EXPORT void ggml_backend_buffer_free(void *buffer) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *) = m->real[NM_SYM_ggml_backend_buffer_free];
    if (nm_config.active && buffer != NULL) {
        int saved = errno; /* often of what made the engine give up */
        nm_registry_drop_buffer(buffer);
        nm_scratch_drop(buffer);
        errno = saved;
    }
    if (real != NULL) real(buffer);
}

/* Counted as a reader of the table, so that it is not freed under the look. */
static void refresh(const void *start, size_t bytes) {
    nm_registry_enter();
    const struct nm_table *table = atomic_load(&nm_table);
    if (table != NULL) {
        size_t first = nm_table_first_after(table, (uintptr_t)start);
        if (first < table->count && table->weights[first].start < (uintptr_t)start + bytes)
            nm_registry_refresh(start, bytes);
    }
    nm_registry_leave();
}

NM_EXPORT void ggml_backend_buffer_clear(void *buffer, uint8_t value) {
    struct nm_module *m = nm_caller_module(NM_CALLER());
    void (*real)(void *, uint8_t) = m->real[NM_SYM_ggml_backend_buffer_clear];
    if (real != NULL) real(buffer, value);
    if (!nm_config.active || atomic_load(&nm_table) == NULL) return;
    struct nm_buffer known;
    if (nm_registry_find_buffer(buffer, &known)) refresh((const void *)known.start, known.bytes);
}

void nm_refresh_tensor(const struct nm_module *m, const void *tensor, size_t offset, size_t bytes) {
    if (!nm_config.active || atomic_load(&nm_table) == NULL) return;
    const char *(*data_of)(const void *) = m->real[NM_SYM_ggml_get_data];
    if (data_of != NULL) refresh(data_of(tensor) + offset, bytes);
}
