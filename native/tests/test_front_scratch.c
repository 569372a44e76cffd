/* What the status page tells of the engine's memory without weights, read as `inspect` reads it. */
#include "front.h"
#include "page.h"

enum { USAGE_COMPUTE = 2 };

static const struct buffer cpu = {.host = true};
static struct buffer model;

/* The kind under which the buffer is told; NM_ALLOTTED when it is not. */
static uint32_t kind_of(const struct buffer *buffer) {
    const struct nm_status *page = status_page();
    CHECK(page != NULL && page->buffers <= NM_MAX_BUFFERS);
    for (uint32_t i = 0; i < page->buffers; ++i)
        if (page->buffer[i].start == (uintptr_t)buffer->base) {
            CHECK(page->buffer[i].bytes == buffer->size);
            return page->buffer[i].kind;
        }
    return NM_ALLOTTED;
}

static struct buffer *allot(size_t bytes) { return ggml_backend_buft_alloc_buffer(&cpu, bytes); }

static void end(struct buffer *buffer) {
    stand_in_free(buffer);
    free(buffer->base);
    free(buffer);
}

static void compute(int op_code, char *written) {
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(op_code, &weight);
    op.data = written;
    CHECK(stand_in_compute(&op, 1, 1) == 0);
}

static void what_the_engine_marks_for_computing_is_told(void) {
    struct buffer *buffer = allot(2 * MIB);
    ggml_backend_buffer_set_usage(buffer, USAGE_COMPUTE);
    CHECK(kind_of(buffer) == NM_COMPUTE);
    compute(OP_CPY, buffer->base);
    CHECK(kind_of(buffer) == NM_COMPUTE);
    end(buffer);
    CHECK(kind_of(buffer) == NM_ALLOTTED);
}

static void what_ops_write_to_is_told_as_a_cache(void) {
    struct buffer *cache = allot(4 * MIB), *untouched = allot(MIB);
    compute(OP_VIEW, (char *)cache->base + MIB);
    CHECK(kind_of(cache) == NM_ALLOTTED);
    compute(OP_CPY, (char *)cache->base + MIB);
    CHECK(kind_of(cache) == NM_CACHE);
    CHECK(kind_of(untouched) == NM_ALLOTTED);
    end(cache);
    end(untouched);
}

static void weights_and_what_is_on_a_gpu_are_not_told(void) {
    struct buffer *weights = allot(2 * MIB);
    stand_in_mark_weights(weights);
    compute(OP_CPY, weights->base);
    CHECK(kind_of(weights) == NM_ALLOTTED);
    const struct buffer device = {.device = 1};
    struct buffer *gpu = ggml_backend_buft_alloc_buffer(&device, 2 * MIB);
    ggml_backend_buffer_set_usage(gpu, USAGE_COMPUTE);
    CHECK(kind_of(gpu) == NM_ALLOTTED);
    end(gpu);
    end(weights);
}

static void more_buffers_than_the_page_has_room_for_are_left_out(void) {
    struct buffer *many[NM_MAX_BUFFERS + 1];
    for (int i = 0; i <= NM_MAX_BUFFERS; ++i) {
        many[i] = allot(4096);
        ggml_backend_buffer_set_usage(many[i], USAGE_COMPUTE);
    }
    CHECK(kind_of(many[NM_MAX_BUFFERS - 1]) == NM_COMPUTE);
    CHECK(kind_of(many[NM_MAX_BUFFERS]) == NM_ALLOTTED);
    for (int i = 0; i <= NM_MAX_BUFFERS; ++i) end(many[i]);
}

int main(void) {
    model = new_model(4 * MIB);
    stand_in_mark_weights(&model);
    RUN(what_the_engine_marks_for_computing_is_told);
    RUN(what_ops_write_to_is_told_as_a_cache);
    RUN(weights_and_what_is_on_a_gpu_are_not_told);
    RUN(more_buffers_than_the_page_has_room_for_are_left_out);
    return 0;
}
