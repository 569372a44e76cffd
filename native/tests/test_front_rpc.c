/* A worker of the RPC: nobody says which of its buffers hold weights. */
#include "front.h"

struct buffer *stand_in_rpc_alloc(const struct buffer *type, size_t size);

static const struct buffer cpu = {.host = true};

static struct buffer *new_buffer(void) {
    struct buffer *buffer = stand_in_rpc_alloc(&cpu, 4 * MIB);
    memset(buffer->base, 'w', buffer->size);
    return buffer;
}

static void end(struct buffer *buffer) {
    stand_in_free(buffer);
    free(buffer->base);
    free(buffer);
}

static void what_a_worker_only_reads_is_mirrored(void) {
    struct buffer *buffer = new_buffer();
    struct tensor weight = new_weight(buffer->base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    read_at(&op);
    const char *seen = read_at(&op);
    CHECK(seen != (char *)weight.data && seen[0] == 'w');
    end(buffer);
    CHECK(read_at(&op) == (char *)weight.data);
}

static void what_ops_write_is_not(void) {
    struct buffer *buffer = new_buffer();
    struct tensor keys = new_weight(buffer->base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &keys), copy = new_op(OP_CPY, &keys);
    copy.data = (char *)buffer->base + 3 * MIB;
    CHECK(stand_in_compute(&copy, 1, 1) == 0);
    CHECK(read_at(&op) == (char *)keys.data && read_at(&op) == (char *)keys.data);
    end(buffer);
}

static void a_view_of_weights_is_no_write(void) {
    struct buffer *buffer = new_buffer();
    struct tensor weight = new_weight(buffer->base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight), view = new_op(OP_VIEW, &weight);
    view.data = buffer->base;
    CHECK(stand_in_compute(&view, 1, 1) == 0);
    read_at(&op);
    CHECK(read_at(&op) != (char *)weight.data);
    end(buffer);
}

static void what_others_allocate_is_left_to_the_mark_of_the_engine(void) {
    struct buffer *buffer = ggml_backend_buft_alloc_buffer(&cpu, 4 * MIB);
    struct tensor weight = new_weight(buffer->base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    CHECK(read_at(&op) == (char *)weight.data && read_at(&op) == (char *)weight.data);
    end(buffer);
}

int main(void) {
    RUN(what_a_worker_only_reads_is_mirrored);
    RUN(what_ops_write_is_not);
    RUN(a_view_of_weights_is_no_write);
    RUN(what_others_allocate_is_left_to_the_mark_of_the_engine);
    return 0;
}
