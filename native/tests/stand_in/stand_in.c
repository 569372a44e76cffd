#include "stand_in.h"

#include <stdlib.h>
#include <string.h>

static struct booking booking;

struct booking *stand_in_booking(void) { return &booking; }

/* ---- tensors ---- */

struct init_params {
    size_t mem_size;
    char *mem_buffer;
    bool no_alloc;
};

const char *ggml_version(void) { return "9.8.7"; }

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

size_t ggml_tensor_overhead(void) { return OBJECT_HEADER + sizeof(struct tensor); }

struct tensor *ggml_new_tensor_2d(struct context *context, int type, int64_t columns,
                                  int64_t rows) {
    struct tensor *t = (struct tensor *)(context->next + OBJECT_HEADER);
    size_t bytes = (size_t)(columns * rows) * 4;
    context->next += OBJECT_HEADER + sizeof *t + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *t = (struct tensor){.type = type, .ne = {columns, rows, 1, 1}};
    t->nb[0] = 4;
    t->nb[1] = 4 * (size_t)columns;
    t->nb[2] = t->nb[3] = bytes;
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

void *ggml_backend_buffer_get_base(const struct buffer *buffer) { return buffer->base; }
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

void ggml_backend_buffer_set_usage(struct buffer *buffer, int usage) { buffer->usage = usage; }
void ggml_backend_buffer_free(struct buffer *buffer) {
    buffer->usage = 0;
    if (buffer->made) free(buffer);
}
void ggml_backend_buffer_clear(struct buffer *buffer, uint8_t value) {
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

/* ---- kernels ---- */

static void book(const void *weight, const void *second, bool intact) {
    booking.weight = weight;
    booking.second = second;
    ++booking.calls;
    booking.arguments_intact = intact;
}

void ggml_vec_dot_f32(int n, float *s, size_t bs, const void *row, size_t bx, const void *y,
                      size_t by, int rows) {
    book(row, NULL, n == 1 && bs == 3 && bx == 4 && y == s && by == 6 && rows == 7);
}

/* As large as the real one is: more arguments than registers. */
void ggml_compute_forward_mul_mat_id_tiled(const struct params *params, struct tensor *op, long a,
                                           long b, long c, long d, long e, long f) {
    book(op->src[0]->data, NULL,
         params->nth > 0 && a == 3 && b == 4 && c == 5 && d == 6 && e == 7 && f == 8);
}

#ifdef STAND_IN_IQK
bool iqk_mul_mat(long rows, long n, long k, int type, const void *weight, long stride, int type_b,
                 const void *b, long stride_b, float *c, long stride_c, int ith, int nth) {
    book(weight, NULL,
         n == 2 && k == 3 && type == 4 && type_b == 7 && b == c && stride_b == 9 &&
             stride_c == 11 && ith < nth);
    return rows * stride > 0;
}

bool iqk_mul_mat_moe(long rows, long n, long k, int ne11, int type, const void *weight, long stride,
                     int type_b, const void *b, long stride_b, float *c, long nb1, long nb2,
                     const void *map, int ith, int nth) {
    book(weight, NULL,
         n == 2 && k == 3 && ne11 == 4 && type == 5 && type_b == 8 && b == c && stride_b == 10 &&
             nb1 == 12 && nb2 == 13 && map == c && ith < nth);
    return rows * stride > 0;
}

bool iqk_moe_fused_up_gate(long rows, long n, long k, int ne11, int unary, int type, const void *up,
                           const void *gate, long stride, int type_b, const void *b, long stride_b,
                           const char *up_b, const char *gate_b, float *c, long nb1, long nb2,
                           const void *map, float limit, int ith, int nth) {
    book(up, gate,
         n == 2 && k == 3 && ne11 == 4 && unary == 5 && type == 6 && type_b == 10 && b == c &&
             stride_b == 12 && up_b == gate_b && nb1 == 16 && nb2 == 17 && map == c &&
             limit == 0.5f && ith < nth);
    return rows * stride > 0;
}
#endif

static void expert_rows(const struct params *params, struct tensor *op) {
    float y = 0;
    if (op->src[0]->type == TYPE_TILED)
        ggml_compute_forward_mul_mat_id_tiled(params, op, 3, 4, 5, 6, 7, 8);
    else
        for (int i = 0; i < params->rows; ++i)
            ggml_vec_dot_f32(1, &y, 3, (char *)op->src[0]->data + 128, 4, &y, 6, 7);
}

/* ---- computing ---- */

#ifdef STAND_IN_IQK
static void compute_op(const struct params *params, struct tensor *op) {
    const struct tensor *w = op->src[0];
    float c = 0;
    long rows = (long)w->ne[1], stride = (long)w->nb[1];
    if (op->op == OP_MUL_MAT)
        iqk_mul_mat(rows, 2, 3, 4, w->data, stride, 7, &c, 9, &c, 11, params->ith, params->nth);
    else if (op->op == OP_MUL_MAT_ID && w->type == TYPE_F32)
        iqk_mul_mat_moe(rows, 2, 3, 4, 5, w->data, stride, 8, &c, 10, &c, 12, 13, &c, params->ith,
                        params->nth);
    else if (op->op == OP_MUL_MAT_ID)
        expert_rows(params, op);
    else if (op->op == OP_UP_GATE)
        iqk_moe_fused_up_gate(rows, 2, 3, 4, 5, 6, w->data, op->src[1]->data, stride, 10, &c, 12,
                              NULL, NULL, &c, 16, 17, &c, 0.5f, params->ith, params->nth);
}
#else
void ggml_compute_forward_mul_mat(const struct params *params, struct tensor *op) {
    book(op->src[0]->data, NULL, params->nth > 0);
}

bool ggml_cpu_extra_compute_forward(const struct params *params, struct tensor *op) {
    if (op->op == OP_NONE || op->src[0]->type != TYPE_EXTRA) return false;
    book(op->src[0]->data, NULL, params->nth > 0);
    return true;
}

static void compute_op(const struct params *params, struct tensor *op) {
    if (ggml_cpu_extra_compute_forward(params, op)) return;
    if (op->op == OP_MUL_MAT) ggml_compute_forward_mul_mat(params, op);
    if (op->op == OP_MUL_MAT_ID) expert_rows(params, op);
    if (op->op == OP_CPY) *(char *)op->data = 'c';
}
#endif

int ggml_graph_compute(struct graph *graph, struct plan *plan) {
    struct params params = {0, plan->threads, plan->rows};
    for (int i = 0; i < graph->nodes; ++i)
        for (int k = 0; k < plan->repeat; ++k) compute_op(&params, graph->node[i]);
    return 0;
}

void stand_in_mark_weights(struct buffer *buffer) { ggml_backend_buffer_set_usage(buffer, 1); }
void stand_in_free(struct buffer *buffer) { ggml_backend_buffer_free(buffer); }
void stand_in_clear(struct buffer *buffer, uint8_t value) {
    ggml_backend_buffer_clear(buffer, value);
}
void stand_in_set(struct tensor *tensor, const void *data, size_t offset, size_t size) {
    ggml_backend_tensor_set(tensor, data, offset, size);
}

void stand_in_upload(struct buffer *backend, struct tensor *tensor, const void *data, size_t size) {
    ggml_backend_tensor_set_async(backend, tensor, data, 0, size);
}

static int compute(struct tensor *op, struct plan plan) {
    struct graph graph = {1, &op};
    return ggml_graph_compute(&graph, &plan);
}

int stand_in_compute(struct tensor *op, int threads, int repeat) {
    return compute(op, (struct plan){threads, repeat, 1});
}

int stand_in_compute_rows(struct tensor *op, int repeat, int rows) {
    return compute(op, (struct plan){1, repeat, rows});
}
