#include "upload.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "config.h"
#include "events.h"
#include "filter.h"
#include "lock.h"
#include "page_size.h"
#include "pci_node.h"
#include "registry.h"
#include "status.h"

enum { MAX_TARGETS = 64, DEVICE_CPU = 0 };

typedef bool pin_host_memory(void *start, size_t bytes);
typedef void unpin_host_memory(void *start);

/* A device that tensors are uploaded to. */
struct target {
    const void *device;
    bool is_gpu;
    int copy; /* whose replicas it is given; -1: the engine's own source */
    pin_host_memory *pin;
    unpin_host_memory *unpin;
    int node;                     /* of the device; -1: not known */
    char address[NM_PCI_ADDRESS]; /* "unknown" */
    uint64_t pinned_for; /* its replicas of the table of this serial are pinned, or refused */
    bool unpinned;       /* some replica could not be pinned */
};

static struct target targets[MAX_TARGETS];
static _Atomic int target_count;
pthread_mutex_t nm_targets_lock = NM_LOCK_INITIALIZER;

/* ---- which device ---- */

/* struct ggml_backend_dev_props begins so since autumn 2025; before, without the id. */
struct props {
    const char *name, *description;
    size_t memory_free, memory_total;
    int type;
    const char *device_id;
    char further[512];
};

static bool is_mapped(const void *address) {
    unsigned char resident;
    return mincore((void *)nm_page_at((uintptr_t)address), 1, &resident) == 0;
}

static int type_of(const struct nm_module *m, const void *device) {
    int (*ask)(const void *) = (int (*)(const void *))m->real[NM_SYM_ggml_backend_dev_type];
    return ask != NULL ? ask(device) : DEVICE_CPU;
}

/* NULL when the backend does not know, or the engine is older than ids. */
static const char *id_of(const struct nm_module *m, const void *device) {
    void (*ask)(const void *, struct props *) = m->real[NM_SYM_ggml_backend_dev_get_props];
    struct props props = {0};
    if (ask == NULL) return NULL;
    ask(device, &props);
    if (props.name == NULL || props.type != type_of(m, device)) return NULL;
    return props.device_id != NULL && is_mapped(props.device_id) ? props.device_id : NULL;
}

static int copy_on(int node) {
    for (int copy = 0; copy < nm_config.copies; ++copy)
        for (int i = 0; i < nm_config.copy[copy].node_count; ++i)
            if (nm_config.copy[copy].nodes[i] == node) return copy;
    return -1;
}

static void find_registrar(struct target *target, const struct nm_module *m) {
    void *(*reg_of)(const void *) = m->real[NM_SYM_ggml_backend_dev_backend_reg];
    void *(*function_of)(void *, const char *) = m->real[NM_SYM_ggml_backend_reg_get_proc_address];
    if (reg_of == NULL || function_of == NULL) return;
    void *reg = reg_of(target->device);
    target->pin = (pin_host_memory *)function_of(reg, "ggml_backend_register_host_buffer");
    target->unpin = (unpin_host_memory *)function_of(reg, "ggml_backend_unregister_host_buffer");
}

static struct target describe(const struct nm_module *m, const void *device) {
    struct target target = {.device = device, .copy = -1, .node = -1, .address = "unknown"};
    target.is_gpu = type_of(m, device) != DEVICE_CPU;
    if (!target.is_gpu || nm_filter_added()) return target;
    if (nm_config.source_node >= 0)
        target.node = nm_config.source_node;
    else if (nm_config.rehearsal == 0 && nm_pci_address(id_of(m, device), target.address))
        target.node = nm_pci_node("/sys/bus/pci/devices", target.address);
    target.copy = copy_on(target.node);
    if (target.copy == nm_config.home_copy && nm_config.source_node < 0) target.copy = -1;
    if (target.copy >= 0) find_registrar(&target, m);
    return target;
}

static struct target *known_target(const void *device) {
    int known = atomic_load_explicit(&target_count, memory_order_acquire);
    for (int i = 0; i < known; ++i)
        if (targets[i].device == device) return &targets[i];
    return NULL;
}

static void say_target(const struct target *target) {
    if (target->is_gpu)
        nm_event("upload", "\"device\":\"%s\",\"node\":%d,\"copy\":%d", target->address,
                 target->node, target->copy);
}

/* Found once for each device; NULL beyond MAX_TARGETS. The engine is asked without the lock. */
static struct target *target_of(const struct nm_module *m, const void *device) {
    struct target *target = known_target(device);
    if (target != NULL) return target;
    struct target found = describe(m, device);
    pthread_mutex_lock(&nm_targets_lock);
    target = known_target(device); /* by another thread, meanwhile */
    int known = atomic_load(&target_count);
    if (target == NULL && known < MAX_TARGETS) {
        target = &targets[known];
        *target = found;
        atomic_store_explicit(&target_count, known + 1, memory_order_release);
        say_target(target);
    }
    pthread_mutex_unlock(&nm_targets_lock);
    return target;
}

/* ---- the device of a tensor ---- */

enum { POOL_BYTES = 1 << 16, PROBE_BYTES = 4096, NOT_FOUND = -1 };

struct init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};

/* Puts two tensors into two buffers and looks where each names its own. `pool` has room for the
 * context and the buffers' memory. */
static long measure_buffer_offset(const struct nm_module *m, char *pool) {
    void *(*init)(struct init_params) = m->real[NM_SYM_ggml_init];
    void (*release)(void *) = m->real[NM_SYM_ggml_free];
    size_t (*overhead)(void) = m->real[NM_SYM_ggml_tensor_overhead];
    char *(*new_2d)(void *, int, int64_t, int64_t) = m->real[NM_SYM_ggml_new_tensor_2d];
    void *(*wrap)(void *, size_t) = m->real[NM_SYM_ggml_backend_cpu_buffer_from_ptr];
    void (*place)(void *, void *, void *) = m->real[NM_SYM_ggml_backend_tensor_alloc];
    void (*unwrap)(void *) = m->real[NM_SYM_ggml_backend_buffer_free];
    if (init == NULL || release == NULL || overhead == NULL || new_2d == NULL || wrap == NULL ||
        place == NULL || unwrap == NULL)
        return NOT_FOUND;
    void *context = init((struct init_params){POOL_BYTES / 2, pool, true});
    if (context == NULL) return NOT_FOUND;
    char *tensor[2];
    void *buffer[2];
    for (int i = 0; i < 2; ++i) {
        char *memory = pool + POOL_BYTES / 2 + i * PROBE_BYTES;
        tensor[i] = new_2d(context, 0, 8, 1);
        buffer[i] = wrap(memory, PROBE_BYTES);
        place(buffer[i], tensor[i], memory);
    }
    size_t size = overhead() - (size_t)(tensor[0] - pool);
    long found = NOT_FOUND;
    for (size_t at = 0; at + sizeof(void *) <= size && found == NOT_FOUND; at += sizeof(void *))
        if (memcmp(tensor[0] + at, &buffer[0], sizeof(void *)) == 0 &&
            memcmp(tensor[1] + at, &buffer[1], sizeof(void *)) == 0)
            found = (long)at;
    for (int i = 0; i < 2; ++i) unwrap(buffer[i]);
    release(context);
    return found;
}

static long buffer_offset(struct nm_module *m) {
    long offset = atomic_load(&m->buffer_offset);
    if (offset != 0) return offset;
    char *pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED) return NOT_FOUND;
    offset = measure_buffer_offset(m, pool);
    munmap(pool, POOL_BYTES);
    atomic_store(&m->buffer_offset, offset);
    return offset;
}

static const void *device_of_tensor(struct nm_module *m, const void *tensor) {
    const void *(*type_of_buffer)(const void *) = m->real[NM_SYM_ggml_backend_buffer_get_type];
    const void *(*device_of)(const void *) = m->real[NM_SYM_ggml_backend_buft_get_device];
    long offset = type_of_buffer != NULL && device_of != NULL ? buffer_offset(m) : NOT_FOUND;
    if (offset == NOT_FOUND) return NULL;
    const void *buffer = *(const void *const *)((const char *)tensor + offset);
    return buffer != NULL ? device_of(type_of_buffer(buffer)) : NULL;
}

static const void *device_of(struct nm_module *m, const void *backend, const void *tensor) {
    const void *(*device_of_backend)(const void *) = m->real[NM_SYM_ggml_backend_get_device];
    if (backend == NULL) return device_of_tensor(m, tensor);
    return device_of_backend != NULL ? device_of_backend(backend) : NULL;
}

/* ---- the source ---- */

/* Pins what the copy's replicas fill, as the engine's own source is, so that DMA reads them. False
 * where one could not be pinned. */
static bool pin_replicas(struct target *target, const struct nm_table *table) {
    pthread_mutex_lock(&nm_registry.lock);
    if (target->pinned_for != table->serial) {
        target->unpinned = target->pin == NULL || target->unpin == NULL;
        for (struct nm_arena *arena = nm_registry.arenas; arena != NULL; arena = arena->next)
            if (arena->copy == target->copy && !target->unpinned)
                target->unpinned = !nm_arena_pin(arena, target->pin, target->unpin);
        target->pinned_for = table->serial;
    }
    bool pinned = !target->unpinned;
    pthread_mutex_unlock(&nm_registry.lock);
    return pinned;
}

/* A replica that is not pinned, in place of a primary that is, would cost the DMA. */
static bool serves(struct target *target, const struct nm_table *table, const void *data) {
    bool pinned = pin_replicas(target, table);
    return nm_config.source_node >= 0 || pinned || !nm_registry_pinned_at((uintptr_t)data);
}

static void count(uint64_t *bytes, size_t more) {
    __atomic_fetch_add(bytes, more, __ATOMIC_RELAXED);
}

static const void *source(struct nm_module *m, const struct nm_table *table, const void *backend,
                          const void *tensor, const void *data, size_t bytes) {
    uintptr_t address = (uintptr_t)data;
    const struct nm_weight *weight = nm_table_find(table, address);
    if (weight == NULL || address + bytes > weight->start + weight->bytes) return data;
    const void *device = device_of(m, backend, tensor);
    struct target *target = device != NULL ? target_of(m, device) : NULL;
    if (target == NULL || type_of(m, device) == DEVICE_CPU) return data;
    ptrdiff_t delta =
        target->copy >= 0 && !atomic_load(&weight->dead) ? weight->delta[target->copy] : 0;
    if (delta == 0 || !serves(target, table, data)) {
        count(&nm_status->upload_primary_bytes, bytes);
        return data;
    }
    count(&nm_status->upload_replica_bytes, bytes);
    return (const char *)data + delta;
}

struct nm_upload nm_upload_begin(struct nm_module *m, const void *backend, const void *tensor,
                                 const void *data, size_t bytes) {
    struct nm_upload upload = {data, false};
    if (!nm_config.active || atomic_load_explicit(&nm_table, memory_order_relaxed) == NULL)
        return upload;
    nm_registry_enter();
    upload.counted = true;
    const struct nm_table *table = atomic_load(&nm_table);
    int saved = errno;
    if (table != NULL) upload.from = source(m, table, backend, tensor, data, bytes);
    errno = saved;
    return upload;
}

void nm_upload_end(const struct nm_upload *upload) {
    if (upload->counted) nm_registry_leave();
}
