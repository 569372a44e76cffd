/* The seams on a stand-in engine: which bytes its kernels are given, before and after mirroring. */
#include <errno.h>

#include "front.h"

static struct buffer model;

static void every_kind_of_op_is_given_a_replica(void) {
    model = new_model(16 * MIB);
    stand_in_mark_weights(&model);
    static const struct {
        int op, type, offset;
    } kinds[] = {{OP_MUL_MAT, TYPE_F32, 0},
                 {OP_MUL_MAT, TYPE_EXTRA, 0},
                 {OP_MUL_MAT_ID, TYPE_F32, 128},
                 {OP_MUL_MAT_ID, TYPE_EXTRA, 0},
                 {OP_MUL_MAT_ID, TYPE_TILED, 0}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        char *primary = (char *)model.base + i * 2 * MIB;
        struct tensor weight = new_weight(primary, kinds[i].type, 2 * MIB);
        struct tensor op = new_op(kinds[i].op, &weight);
        read_at(&op); /* the first graph may show the seams, and builds */
        const char *seen = read_at(&op);
        CHECK(seen != primary + kinds[i].offset && seen[0] == 'w');
        CHECK(weight.data == primary && op.src[0] == &weight);
    }
}

static void graphs_that_take_turns_are_all_found(void) {
    struct tensor first = new_weight((char *)model.base + 10 * MIB, TYPE_F32, MIB);
    struct tensor second = new_weight((char *)model.base + 11 * MIB, TYPE_F32, MIB);
    struct tensor on_first = new_op(OP_MUL_MAT, &first), on_second = new_op(OP_MUL_MAT, &second);
    for (int turn = 0; turn < 2; ++turn) {
        read_at(&on_first);
        read_at(&on_second);
    }
    CHECK(read_at(&on_first) != (char *)first.data);
    CHECK(read_at(&on_second) != (char *)second.data);
}

static void a_model_loaded_while_another_computes_is_found(void) {
    struct buffer late = new_model(2 * MIB);
    struct tensor known = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor weight = new_weight(late.base, TYPE_F32, 2 * MIB);
    struct tensor on_known = new_op(OP_MUL_MAT, &known), on_late = new_op(OP_MUL_MAT, &weight);
    stand_in_mark_weights(&late);
    read_at(&on_known);
    read_at(&on_late);
    CHECK(read_at(&on_late) != (char *)late.base);
    stand_in_free(&late);
    munmap(late.base, late.size);
}

static void a_tensor_that_is_no_weight_is_left_alone(void) {
    char *cache = new_memory(2 * MIB);
    struct tensor keys = new_weight(cache, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &keys);
    CHECK(read_at(&op) == cache && read_at(&op) == cache);
    munmap(cache, 2 * MIB);
}

static void weights_on_a_gpu_are_left_alone(void) {
    struct buffer gpu = {.base = (void *)0x1000, .size = 2 * MIB, .device = 1};
    stand_in_mark_weights(&gpu);
    struct tensor weight = new_weight((char *)0x1000, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    CHECK(read_at(&op) == (char *)0x1000 && read_at(&op) == (char *)0x1000);
    stand_in_free(&gpu);
}

static void pinned_host_memory_of_a_gpu_is_mirrored(void) {
    struct buffer pinned = new_model(2 * MIB);
    pinned.device = 1;
    stand_in_mark_weights(&pinned);
    struct tensor weight = new_weight(pinned.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    CHECK(read_at(&op) != (char *)pinned.base || read_at(&op) != (char *)pinned.base);
    stand_in_free(&pinned);
}

static bool is_inside(void) {
    Dl_info engine, own;
    CHECK(dladdr((void *)stand_in_compute, &engine) != 0 && dladdr((void *)is_inside, &own) != 0);
    return engine.dli_fbase == own.dli_fbase;
}

/* As a GPU's backend allots pinned memory that is larger than its largest buffer. */
static void weights_in_a_buffer_of_several_are_mirrored(void) {
    struct buffer parts[2] = {new_model(2 * MIB), new_model(2 * MIB)};
    struct buffer several = {.size = 4 * MIB, .host = true, .parts = parts};
    stand_in_mark_weights(&several);
    struct tensor weight = new_weight(parts[1].base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    read_at(&op);
    /* Inside a program the parts are told by a call within one file, which is not led to us. */
    CHECK((read_at(&op) != (char *)parts[1].base) != is_inside());
    stand_in_clear(&several, 'z');
    CHECK(*read_at(&op) == 'z');
    stand_in_free(&several);
    for (int i = 0; i < 2; ++i) munmap(parts[i].base, parts[i].size);
}

static void a_view_longer_than_what_was_seen_is_not_read_past_the_replica(void) {
    struct tensor part = new_weight((char *)model.base + 12 * MIB, TYPE_F32, MIB);
    struct tensor whole = new_weight((char *)model.base + 12 * MIB, TYPE_F32, 3 * MIB);
    struct tensor on_part = new_op(OP_MUL_MAT, &part), on_whole = new_op(OP_MUL_MAT, &whole);
    read_at(&on_part);
    CHECK(read_at(&on_part) != (char *)part.data);
    CHECK(read_at(&on_whole) == (char *)whole.data);
    const char *seen = read_at(&on_whole);
    CHECK(seen != (char *)whole.data && memcmp(seen, whole.data, 3 * MIB) == 0);
}

/* Two matrices of which one row each is a matrix of the view: its last dimension is its innermost.
 */
static void a_view_that_is_turned_round_is_not_read_past_the_replica(void) {
    struct buffer late = new_model(2 * MIB);
    struct tensor part = new_weight(late.base, TYPE_F32, MIB), turned = part;
    turned.ne[1] = 1;
    turned.ne[2] = 2;
    turned.ne[3] = 1024;
    turned.nb[1] = 2 * MIB;
    turned.nb[2] = MIB;
    turned.nb[3] = 1024;
    stand_in_mark_weights(&late);
    struct tensor on_part = new_op(OP_MUL_MAT, &part), on_turned = new_op(OP_MUL_MAT, &turned);
    read_at(&on_part);
    CHECK(read_at(&on_part) != (char *)late.base);
    CHECK(read_at(&on_turned) == (char *)late.base);
    CHECK(memcmp(read_at(&on_turned), late.base, 2 * MIB) == 0);
    stand_in_free(&late);
    munmap(late.base, late.size);
}

static void a_later_write_reaches_the_replica(void) {
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    stand_in_set(&weight, "new", 100, 3);
    CHECK(memcmp(read_at(&op) + 100, "new", 3) == 0);
    stand_in_clear(&model, 'z');
    const char *seen = read_at(&op);
    CHECK(seen != (char *)weight.data && seen[0] == 'z' && seen[2 * MIB - 1] == 'z');
}

static void an_op_that_writes_into_a_weight_ends_its_mirror(void) {
    struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight), copy = new_op(OP_CPY, &weight);
    struct tensor view = new_op(OP_VIEW, &weight);
    view.data = copy.data = (char *)model.base + 64;
    CHECK(stand_in_compute(&view, 1, 1) == 0);
    CHECK(read_at(&op) != (char *)weight.data);
    CHECK(stand_in_compute(&copy, 1, 1) == 0);
    CHECK(read_at(&op) == (char *)weight.data);
}

/* errno is 0 when a program begins, and no function that it calls sets it back. */
static int errno_at_start;

static void errno_stays_as_the_program_has_it(void) {
    CHECK(errno_at_start == 0);
    struct buffer gpu = {.device = 1, .device_id = "0000:c1:00.0"}, late = new_model(2 * MIB);
    struct tensor weight = new_weight(late.base, TYPE_F32, 2 * MIB), to = weight;
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    static char on_gpu[64];
    to.data = on_gpu;
    enum { OWN = 4711 };
    errno = OWN;
    stand_in_mark_weights(&late);
    CHECK(errno == OWN);
    for (int i = 0; i < 2; ++i) {
        CHECK(stand_in_compute(&op, 1, 1) == 0);
        CHECK(errno == OWN);
    }
    stand_in_upload(&gpu, &to, late.base, sizeof on_gpu);
    CHECK(errno == OWN);
    stand_in_set(&weight, "new", 0, 3);
    stand_in_clear(&late, 'z');
    stand_in_free(&late);
    CHECK(errno == OWN);
    munmap(late.base, late.size);
}

static void a_freed_model_is_forgotten(void) {
    stand_in_free(&model);
    struct tensor weight = new_weight((char *)model.base + 2 * MIB, TYPE_F32, 2 * MIB);
    struct tensor op = new_op(OP_MUL_MAT, &weight);
    CHECK(read_at(&op) == (char *)weight.data && read_at(&op) == (char *)weight.data);
    munmap(model.base, model.size);
}

int main(void) {
    errno_at_start = errno;
    RUN(every_kind_of_op_is_given_a_replica);
    RUN(graphs_that_take_turns_are_all_found);
    RUN(a_model_loaded_while_another_computes_is_found);
    RUN(a_tensor_that_is_no_weight_is_left_alone);
    RUN(weights_on_a_gpu_are_left_alone);
    RUN(pinned_host_memory_of_a_gpu_is_mirrored);
    RUN(weights_in_a_buffer_of_several_are_mirrored);
    RUN(a_view_longer_than_what_was_seen_is_not_read_past_the_replica);
    RUN(a_view_that_is_turned_round_is_not_read_past_the_replica);
    RUN(a_later_write_reaches_the_replica);
    RUN(an_op_that_writes_into_a_weight_ends_its_mirror);
    RUN(errno_stays_as_the_program_has_it);
    RUN(a_freed_model_is_forgotten);
    return 0;
}
