/* As libllama would: calls from outside the compute library. */
#include "stand_in.h"

#ifdef STAND_IN_COMPILED_IN /* as a compiler leaves a call that it has inlined */
void stand_in_mark_weights(struct buffer *buffer) { buffer->usage = 1; }
#else
void stand_in_mark_weights(struct buffer *buffer) { ggml_backend_buffer_set_usage(buffer, 1); }
#endif

void stand_in_free(struct buffer *buffer) {
#ifdef STAND_IN_STRANGE /* a byte that is no instruction of x86-64 */
    __asm__ volatile("jmp 1f\n .byte 0x06\n 1:");
#endif
    ggml_backend_buffer_free(buffer);
}

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
    return compute(op, (struct plan){threads, repeat, 1, NULL});
}

int stand_in_compute_by_threads(struct tensor *op, int threads, int repeat,
                                void (*after_op)(int ith)) {
    return compute(op, (struct plan){threads, repeat, 1, after_op});
}

int stand_in_compute_rows(struct tensor *op, int repeat, int rows) {
    return compute(op, (struct plan){1, repeat, rows, NULL});
}
