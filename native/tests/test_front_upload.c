/* What is uploaded to a GPU, and from which copy. NUMAMIRROR_SRC_NODE is 1, or not set. */
#include "front.h"

static struct buffer gpu = {.device = 1, .device_id = "0000:c1:00.0", .registers = true};
static struct buffer plain_gpu = {.device = 1};
static struct buffer processor = {.host = true};
static struct buffer model;
static char on_gpu[2 * MIB];

static struct tensor tensor_in(struct buffer *buffer) {
    struct tensor tensor = new_weight(on_gpu, TYPE_F32, sizeof on_gpu);
    tensor.buffer = buffer;
    return tensor;
}

/* Where the bytes at `data` were read, sent through the backend or, NULL, the tensor's buffer. */
static const char *sent_from(struct buffer *backend, struct tensor *to, const char *data) {
    stand_in_booking()->uploaded_from = NULL;
    if (backend != NULL)
        stand_in_upload(backend, to, data, 4096);
    else
        stand_in_set(to, data, 0, 4096);
    CHECK(memcmp(to->data, data, 4096) == 0);
    return stand_in_booking()->uploaded_from;
}

static bool is_forced(void) { return getenv("NUMAMIRROR_SRC_NODE") != NULL; }

static void weights_come_from_the_replica_of_the_forced_node(void) {
    model = new_model(4 * MIB);
    stand_in_mark_weights(&model);
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB), to = tensor_in(&gpu);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    read_at(&op);
    const char *primary = model.base;
    CHECK((sent_from(&gpu, &to, primary) != primary) == is_forced());
    CHECK((sent_from(NULL, &to, primary + 4096) != primary + 4096) == is_forced());
    CHECK((sent_from(&plain_gpu, &to, primary) != primary) == is_forced());
}

static void replicas_are_pinned_as_long_as_they_live(void) {
    size_t pinned = stand_in_booking()->pinned;
    CHECK(is_forced() ? pinned >= 2 * MIB && pinned < 3 * MIB : pinned == 0);
}

static void a_device_is_looked_at_once(void) {
    struct tensor to = tensor_in(&gpu);
    int asked = stand_in_booking()->asked;
    for (int i = 0; i < 3; ++i) sent_from(&gpu, &to, model.base);
    CHECK(stand_in_booking()->asked == asked);
    static struct buffer another = {.device = 1, .device_id = "0000:c2:00.0"};
    for (int i = 0; i < 3; ++i) sent_from(&another, &to, model.base);
    CHECK(stand_in_booking()->asked == asked + (is_forced() ? 1 : 0));
}

static void other_sources_and_targets_are_left_alone(void) {
    struct tensor to = tensor_in(&gpu), on_cpu = tensor_in(&processor), nowhere = tensor_in(NULL);
    const char *primary = model.base;
    static const char activations[4096];
    CHECK(sent_from(&gpu, &to, activations) == activations);
    CHECK(sent_from(&gpu, &to, primary + 2 * MIB - 2048) == primary + 2 * MIB - 2048);
    CHECK(sent_from(&processor, &on_cpu, primary) == primary);
    CHECK(sent_from(NULL, &on_cpu, primary) == primary);
    CHECK(sent_from(NULL, &nowhere, primary) == primary);
}

static void freed_replicas_are_not_pinned(void) {
    stand_in_free(&model);
    CHECK(stand_in_booking()->pinned == 0);
    struct tensor to = tensor_in(&gpu);
    CHECK(sent_from(&gpu, &to, model.base) == model.base);
    munmap(model.base, model.size);
}

/* What is known of a model must not be taken for the next one's, which can lie at its addresses. */
static void replicas_of_the_next_model_are_pinned_too(void) {
    struct tensor to = tensor_in(&gpu);
    for (int round = 0; round < 8 && is_forced(); ++round) {
        model = new_model(4 * MIB);
        stand_in_mark_weights(&model);
        struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
        struct tensor op = new_op(OP_MUL_MAT, &weight);
        read_at(&op);
        CHECK(sent_from(&gpu, &to, model.base) != (char *)model.base);
        CHECK(stand_in_booking()->pinned >= 2 * MIB);
        stand_in_free(&model);
        munmap(model.base, model.size);
    }
}

int main(void) {
    RUN(weights_come_from_the_replica_of_the_forced_node);
    RUN(replicas_are_pinned_as_long_as_they_live);
    RUN(a_device_is_looked_at_once);
    RUN(other_sources_and_targets_are_left_alone);
    RUN(freed_replicas_are_not_pinned);
    RUN(replicas_of_the_next_model_are_pinned_too);
    return 0;
}
