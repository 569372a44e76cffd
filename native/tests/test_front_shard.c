/* Shard on a stand-in engine: when rows are placed, and what is said of it. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "front.h"
#include "heard.h"
#include "page.h"

static void compute(struct tensor *weight, int64_t tokens, int threads) {
    struct tensor columns = {.ne = {256, tokens, 1, 1}};
    struct tensor op = new_op(OP_MUL_MAT, weight);
    op.src[1] = &columns;
    CHECK(stand_in_compute(&op, threads, 1) == 0);
}

static void rows_are_placed_when_the_first_token_is_decoded(void) {
    struct buffer model = new_model(4 * MIB);
    struct tensor weight = new_weight(model.base, TYPE_F32, 4 * MIB);
    stand_in_mark_weights(&model);
    compute(&weight, 16, 2);
    CHECK(times_said("\"event\":\"placed\"") == 0);
    CHECK(strcmp(status_page()->reason, "rows are placed when the first token is decoded") == 0);
    compute(&weight, 1, 2);
    CHECK(times_said("\"event\":\"placed\"") == 1 && times_said("\"threads\":2") == 1);
    compute(&weight, 1, 2);
    CHECK(times_said("\"event\":\"placed\"") == 1);
    for (size_t i = 0; i < model.size; ++i) CHECK(((char *)model.base)[i] == 'w');
    stand_in_free(&model);
}

static void a_number_of_threads_that_does_not_divide_is_said_with_its_cost(void) {
    struct buffer model = new_model(4 * MIB);
    struct tensor weight = new_weight(model.base, TYPE_F32, 4 * MIB);
    stand_in_mark_weights(&model);
    CHECK(times_said("do not divide") == 0);
    compute(&weight, 1, 3);
    CHECK(times_said("3 threads do not divide among 2 nodes") == 1);
    CHECK(times_said("reads 67 % of every weight, 1.33 times an even share") == 1);
    CHECK(times_said("use a number of threads that gives each CPU as much") == 1);
    stand_in_free(&model);
}

static void a_long_prompt_for_amx_is_said_once_to_stay_mixed(void) {
    struct buffer model = new_model(4 * MIB);
    struct tensor weight = new_weight(model.base, TYPE_EXTRA, 4 * MIB);
    model.host = false;
    model.name = "AMX";
    stand_in_mark_weights(&model);
    compute(&weight, 1, 2);
    compute(&weight, 32, 2);
    CHECK(times_said("AMX divides") == 0);
    compute(&weight, 33, 2);
    compute(&weight, 33, 2);
    CHECK(times_said("AMX divides more than 32 tokens by tokens, so that every thread reads all "
                     "rows; decoding is local") == 1);
    CHECK(times_said("\"long prompts are read from both near and far memory\"") == 1);
    stand_in_free(&model);
}

static void a_prompt_with_more_tokens_than_rows_is_said_once_to_stay_mixed(void) {
    struct buffer model = new_model(4 * MIB);
    struct tensor weight = new_weight(model.base, TYPE_F32, 4 * MIB);
    stand_in_mark_weights(&model);
    compute(&weight, 1, 2);
    compute(&weight, weight.ne[1] - 1, 2);
    CHECK(times_said("from both near and far memory in long prompts") == 0);
    compute(&weight, weight.ne[1], 2);
    compute(&weight, weight.ne[1], 2);
    CHECK(times_said("some matrices are read from both near and far memory in long prompts") == 1);
    CHECK(times_said("a prompt has more of them than the matrix has rows") == 1);
    stand_in_free(&model);
}

/* The first write to a large one goes through first_touch.h. */
static void repacked_weights_read_as_they_were_set(void) {
    enum { BYTES = 18 * MIB };
    char *space = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(space != MAP_FAILED);
    struct buffer model = {.base = space, .size = 2 * BYTES};
    struct tensor weight = new_weight(space + MIB / 2, TYPE_EXTRA, BYTES);
    stand_in_mark_weights(&model);
    char *content = new_memory(BYTES);
    stand_in_set(&weight, content, 0, BYTES);
    CHECK(memcmp(weight.data, content, BYTES) == 0);
    stand_in_set(&weight, "again", 0, 5);
    CHECK(memcmp(weight.data, "againwww", 8) == 0);
    compute(&weight, 1, 2);
    CHECK(memcmp(weight.data, "againwww", 8) == 0);
    for (size_t i = BYTES + MIB / 2; i < 2 * BYTES; ++i) CHECK(space[i] == 0);
    stand_in_free(&model);
}

int main(void) {
    listen_to_the_shim();
    RUN(rows_are_placed_when_the_first_token_is_decoded);
    RUN(a_number_of_threads_that_does_not_divide_is_said_with_its_cost);
    RUN(a_long_prompt_for_amx_is_said_once_to_stay_mixed);
    RUN(a_prompt_with_more_tokens_than_rows_is_said_once_to_stay_mixed);
    RUN(repacked_weights_read_as_they_were_set);
    return 0;
}
