/* A function of an engine that ends in a jump to a seam: the seam then returns to whoever called
 * that function, which need not know of any engine. */
#include <pthread.h>

#include "front.h"
#include "only_calls.h"

static void *use_the_engine(void *model) {
    stand_in_mark_weights(model);
    return NULL;
}

/* By then this thread had called a seam, for nobody: no engine was known. */
static void what_is_written_arrives_when_another_thread_has_found_the_engine(void) {
    struct buffer nothing = {.host = true};
    only_call_usage(ggml_backend_buffer_set_usage, &nothing, 1);
    CHECK(nothing.usage == 0);

    struct buffer model = new_model(MIB);
    pthread_t another;
    CHECK(pthread_create(&another, NULL, use_the_engine, &model) == 0);
    CHECK(pthread_join(another, NULL) == 0 && model.usage == 1);

    struct tensor weight = new_weight(model.base, TYPE_F32, MIB);
    only_call_set(ggml_backend_tensor_set, &weight, "new", 4);
    CHECK(strcmp(model.base, "new") == 0);
    stand_in_free(&model);
}

int main(void) {
    RUN(what_is_written_arrives_when_another_thread_has_found_the_engine);
    return 0;
}
