/*
 * Multiplies by weights, writes to them in each way that ggml has, and multiplies again.
 *
 *     write_weights DIRECTORY-OF-BACKENDS
 *
 * Prints a line per step: its name and a hash of the product. Linked with an engine's libggml; what
 * is declared here has stood in ggml.h and ggml-backend.h for years.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ggml_init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};

void *ggml_init(struct ggml_init_params params);
void *ggml_new_tensor_2d(void *context, int type, int64_t ne0, int64_t ne1);
void *ggml_view_1d(void *context, void *tensor, int64_t ne0, size_t offset);
void *ggml_mul_mat(void *context, void *a, void *b);
void *ggml_scale_inplace(void *context, void *tensor, float factor);
void *ggml_cpy(void *context, void *from, void *to);
void *ggml_new_graph(void *context);
void ggml_build_forward_expand(void *graph, void *tensor);
void ggml_backend_load_all_from_path(const char *directory);
void *ggml_backend_init_by_type(int type, const char *parameters);
void *ggml_backend_cpu_buffer_type(void);
void *ggml_backend_alloc_ctx_tensors_from_buft(void *context, void *buffer_type);
int ggml_backend_graph_compute(void *backend, void *graph);
void ggml_backend_buffer_set_usage(void *buffer, int usage);
void ggml_backend_buffer_clear(void *buffer, uint8_t value);
void ggml_backend_buffer_free(void *buffer);
void ggml_backend_tensor_set(void *tensor, const void *data, size_t offset, size_t bytes);
void ggml_backend_tensor_set_async(void *backend, void *tensor, const void *data, size_t offset,
                                   size_t bytes);
void ggml_backend_tensor_get(const void *tensor, void *data, size_t offset, size_t bytes);
void ggml_backend_tensor_memset(void *tensor, uint8_t value, size_t offset, size_t bytes);
void ggml_backend_tensor_copy(void *from, void *to);

/* Newer versions only. */
void ggml_backend_tensor_set_2d(void *tensor, const void *data, size_t offset, size_t bytes,
                                size_t copies, size_t tensor_stride, size_t data_stride)
    __attribute__((weak));

enum { F32 = 0, CPU = 0, WEIGHTS = 1, COLUMNS = 256, ROWS = 1024, TOKENS = 4 };
enum { ROW_BYTES = COLUMNS * 4, WEIGHT_BYTES = ROWS * ROW_BYTES };

struct model {
    void *backend, *buffer, *weight, *input, *other;
};

static void *new_context(void) { return ggml_init((struct ggml_init_params){1 << 20, NULL, true}); }

static const float *numbers(unsigned seed) {
    static float made[ROWS * COLUMNS];
    srand(seed);
    for (int i = 0; i < ROWS * COLUMNS; ++i) made[i] = (float)(rand() % 2001 - 1000) / 1000.0f;
    return made;
}

static void *compute(const struct model *model, void *context, void *result) {
    void *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, result);
    ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
    if (ggml_backend_graph_compute(model->backend, graph) != 0) exit(1);
    return result;
}

static void show(const char *step, void *product) {
    static float values[ROWS * TOKENS];
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    ggml_backend_tensor_get(product, values, 0, sizeof values);
    for (size_t i = 0; i < sizeof values; ++i)
        hash = (hash ^ ((const unsigned char *)values)[i]) * 1099511628211u;
    printf("%s %016llx\n", step, (unsigned long long)hash);
}

static void multiply(const struct model *model, const char *step) {
    void *context = new_context();
    show(step, compute(model, context, ggml_mul_mat(context, model->weight, model->input)));
}

static struct model load(const char *directory) {
    struct model m = {0};
    ggml_backend_load_all_from_path(directory);
    m.backend = ggml_backend_init_by_type(CPU, NULL);
    if (m.backend == NULL) exit(2);
    void *weights = new_context(), *inputs = new_context();
    m.weight = ggml_new_tensor_2d(weights, F32, COLUMNS, ROWS);
    m.buffer = ggml_backend_alloc_ctx_tensors_from_buft(weights, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_set_usage(m.buffer, WEIGHTS);
    m.input = ggml_new_tensor_2d(inputs, F32, COLUMNS, TOKENS);
    m.other = ggml_new_tensor_2d(inputs, F32, COLUMNS, ROWS);
    ggml_backend_alloc_ctx_tensors_from_buft(inputs, ggml_backend_cpu_buffer_type());
    ggml_backend_tensor_set(m.weight, numbers(1), 0, WEIGHT_BYTES);
    ggml_backend_tensor_set(m.input, numbers(2), 0, TOKENS * ROW_BYTES);
    ggml_backend_tensor_set(m.other, numbers(3), 0, WEIGHT_BYTES);
    return m;
}

/* The multiplication stands behind the write in one graph, or in the next graph. */
static void write_by_op(const struct model *m) {
    void *context = new_context();
    void *written = ggml_cpy(context, m->other, m->weight);
    show("op, same graph", compute(m, context, ggml_mul_mat(context, written, m->input)));
    multiply(m, "op, next graph");
    context = new_context();
    void *part = ggml_view_1d(context, m->weight, 7 * COLUMNS, 5 * ROW_BYTES);
    compute(m, context, ggml_scale_inplace(context, part, 3.0f));
    multiply(m, "op on a view");
}

int main(int count, char **words) {
    if (count != 2) return 2;
    struct model m = load(words[1]);
    multiply(&m, "loaded");
    multiply(&m, "again");
    ggml_backend_tensor_set(m.weight, numbers(4), 0, WEIGHT_BYTES);
    multiply(&m, "tensor_set");
    ggml_backend_tensor_set(m.weight, numbers(5), 3 * ROW_BYTES + 12, 1000);
    multiply(&m, "tensor_set of a part");
    ggml_backend_tensor_set_async(m.backend, m.weight, numbers(6), ROW_BYTES, 9 * ROW_BYTES);
    multiply(&m, "tensor_set_async");
    if (ggml_backend_tensor_set_2d != NULL)
        ggml_backend_tensor_set_2d(m.weight, numbers(7), 0, 64, 20, ROW_BYTES, 64);
    multiply(&m, "tensor_set_2d");
    ggml_backend_tensor_memset(m.weight, 0, 2 * ROW_BYTES, ROW_BYTES);
    multiply(&m, "tensor_memset");
    ggml_backend_tensor_copy(m.other, m.weight);
    multiply(&m, "tensor_copy");
    ggml_backend_buffer_clear(m.buffer, 0);
    multiply(&m, "buffer_clear");
    ggml_backend_tensor_set(m.weight, numbers(8), 0, WEIGHT_BYTES);
    multiply(&m, "tensor_set after all");
    write_by_op(&m);
    ggml_backend_buffer_free(m.buffer);
    return 0;
}
