#include "stand_in.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local struct booking booking;

struct booking *stand_in_booking(void) { return &booking; }

/* ---- tensors ---- */

struct init_params {
    size_t mem_size;
    char *mem_buffer;
    bool no_alloc;
};

#ifndef STAND_IN_NAMELESS
const char *ggml_version(void) { return "9.8.7"; }
#endif

struct context {
    char *next;
};

enum { OBJECT_HEADER = 32, ALIGNMENT = 16 };

void *ggml_init(struct init_params params) {
    struct context *context = malloc(sizeof *context);
    context->next = params.mem_buffer;
    return context;
}

void ggml_free(void *context) { free(context); }

#ifdef STAND_IN_SIZELESS /* less than any tensor has */
size_t ggml_tensor_overhead(void) { return OBJECT_HEADER; }
#else
size_t ggml_tensor_overhead(void) { return OBJECT_HEADER + sizeof(struct tensor); }
#endif

struct tensor *ggml_new_tensor_2d(struct context *context, int type, int64_t columns,
                                  int64_t rows) {
    struct tensor *t = (struct tensor *)(context->next + OBJECT_HEADER);
    size_t bytes = (size_t)(columns * rows) * 4;
    context->next += OBJECT_HEADER + sizeof *t + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *t = (struct tensor){.type = type, .ne = {columns, rows, 1, 1}};
    t->nb[0] = 4;
    t->nb[1] = 4 * (size_t)columns;
#ifndef STAND_IN_SHAPELESS
    t->nb[2] = t->nb[3] = bytes;
#endif
    t->data = t + 1;
    return t;
}

static struct tensor *result_of(struct context *context, int op, struct tensor *a,
                                struct tensor *b) {
    struct tensor *t = ggml_new_tensor_2d(context, 0, a->ne[1], b->ne[1]);
    t->op = op;
    t->src[0] = a;
    t->src[1] = b;
    return t;
}

struct tensor *ggml_mul_mat(struct context *context, struct tensor *a, struct tensor *b) {
    return result_of(context, OP_MUL_MAT, a, b);
}

struct tensor *ggml_add(struct context *context, struct tensor *a, struct tensor *b) {
    return result_of(context, OP_ADD, a, b);
}

#ifdef STAND_IN_UNREADABLE /* the data pointer is not where any tensor shows it */
void *ggml_get_data(const struct tensor *t) { return (char *)t->data + 1; }
#else
void *ggml_get_data(const struct tensor *t) { return t->data; }
#endif

const char *ggml_op_name(int op) {
    static const char *const names[] = {"NONE",    "DUP",        "ADD",           "SUB", "MUL",
                                        "MUL_MAT", "MUL_MAT_ID", "FUSED_UP_GATE", "CPY", "RESHAPE",
                                        "VIEW",    "PERMUTE",    "TRANSPOSE"};
    return op < (int)(sizeof names / sizeof *names) ? names[op] : "X";
}

int ggml_graph_n_nodes(const struct graph *graph) { return graph->nodes; }
struct tensor *ggml_graph_node(const struct graph *graph, int i) { return graph->node[i]; }

/* ---- buffers ---- */

/* Older engines end here for a buffer made of several: it has no base to ask for. */
void *ggml_backend_buffer_get_base(const struct buffer *buffer) {
    if (buffer->parts != NULL) abort();
    return buffer->base;
}
bool ggml_backend_buffer_is_multi_buffer(const struct buffer *buffer) {
    return buffer->parts != NULL;
}
size_t ggml_backend_buffer_get_size(const struct buffer *buffer) { return buffer->size; }
const struct buffer *ggml_backend_buffer_get_type(const struct buffer *buffer) { return buffer; }
const struct buffer *ggml_backend_buft_get_device(const struct buffer *type) { return type; }
int ggml_backend_dev_type(const struct buffer *device) { return device->device; }
const char *ggml_backend_buft_name(const struct buffer *type) { return type->name; }
bool ggml_backend_buft_is_host(const struct buffer *type) { return type->host; }
size_t ggml_backend_buft_get_alloc_size(const struct buffer *type, const struct tensor *t) {
    (void)type;
    return t->nb[3] * (size_t)t->ne[3];
}

/* For buffers that the engine makes itself; those of tests are theirs. */
struct buffer *ggml_backend_buft_alloc_buffer(const struct buffer *type, size_t size) {
    struct buffer *buffer = malloc(sizeof *buffer);
    *buffer = *type;
    buffer->base = aligned_alloc(64, size);
    buffer->size = size;
    return buffer;
}

/* Functions of their own, as in ggml: what calls itself is not called through the loader. */
static void set_usage_of_parts(struct buffer *buffer, int usage) {
    for (int i = 0; i < 2; ++i) ggml_backend_buffer_set_usage(&buffer->parts[i], usage);
}
static void clear_parts(struct buffer *buffer, uint8_t value) {
    for (int i = 0; i < 2; ++i) ggml_backend_buffer_clear(&buffer->parts[i], value);
}
static void free_parts(struct buffer *buffer) {
    for (int i = 0; i < 2; ++i) ggml_backend_buffer_free(&buffer->parts[i]);
}

void ggml_backend_buffer_set_usage(struct buffer *buffer, int usage) {
    buffer->usage = usage;
    if (buffer->parts != NULL) set_usage_of_parts(buffer, usage);
}
void ggml_backend_buffer_free(struct buffer *buffer) {
    if (buffer->parts != NULL) free_parts(buffer);
    buffer->usage = 0;
    if (buffer->made) free(buffer);
}
void ggml_backend_buffer_clear(struct buffer *buffer, uint8_t value) {
    if (buffer->device != 0) return;
    if (buffer->parts != NULL)
        clear_parts(buffer, value);
    else
        memset(buffer->base, value, buffer->size);
}
void ggml_backend_tensor_set(struct tensor *tensor, const void *data, size_t offset, size_t size) {
    booking.uploaded_from = data;
    memcpy((char *)tensor->data + offset, data, size);
}

/* ---- a GPU: its buffer is its backend and device as well ---- */

struct props {
    const char *name, *description;
    size_t memory_free, memory_total;
    int type;
    const char *device_id;
};

const struct buffer *ggml_backend_get_device(const struct buffer *backend) { return backend; }
const struct buffer *ggml_backend_dev_backend_reg(const struct buffer *device) {
    ++booking.asked;
    return device;
}
void ggml_backend_dev_get_props(const struct buffer *device, struct props *props) {
    *props = (struct props){"stand-in", "", 0, 0, device->device, device->device_id};
}

static bool pin(void *start, size_t bytes) {
    booking.pinned += bytes;
    return start != NULL;
}

static void unpin(void *start) { booking.pinned = start == NULL; }

void *ggml_backend_reg_get_proc_address(const struct buffer *reg, const char *name) {
    if (!reg->registers) return NULL;
    if (strcmp(name, "ggml_backend_register_host_buffer") == 0) return (void *)pin;
    return strcmp(name, "ggml_backend_unregister_host_buffer") == 0 ? (void *)unpin : NULL;
}

struct buffer *ggml_backend_cpu_buffer_from_ptr(void *start, size_t size) {
    struct buffer *buffer = malloc(sizeof *buffer);
    *buffer = (struct buffer){.base = start, .size = size, .host = true, .made = true};
    return buffer;
}

int ggml_backend_tensor_alloc(struct buffer *buffer, struct tensor *tensor, void *address) {
    tensor->buffer = buffer;
    tensor->data = address;
    return 0;
}

void ggml_backend_tensor_set_async(struct buffer *backend, struct tensor *tensor, const void *data,
                                   size_t offset, size_t size) {
    (void)backend;
    ggml_backend_tensor_set(tensor, data, offset, size);
}
