/* Several of an engine's users at once, each with a model of its own that comes and goes: for the
 * thread sanitizer. */
#include <pthread.h>

#include "front.h"

enum { USERS = 4, ROUNDS = 8, GRAPHS = 4 };

static pthread_barrier_t start;

static void *use(void *argument) {
    pthread_barrier_wait(&start);
    for (int round = 0; round < ROUNDS; ++round) {
        struct buffer model = new_model(2 * MIB);
        stand_in_mark_weights(&model);
        struct tensor weight = new_weight(model.base, TYPE_F32, 2 * MIB);
        struct tensor op = new_op(OP_MUL_MAT, &weight);
        for (int graph = 0; graph < GRAPHS; ++graph) CHECK(read_at(&op)[64] == 'w');
        stand_in_set(&weight, "new", 64, 3);
        CHECK(memcmp(read_at(&op) + 64, "new", 3) == 0);
        stand_in_free(&model);
        CHECK(read_at(&op) == (char *)model.base);
        munmap(model.base, model.size);
    }
    return argument;
}

static void each_reads_its_own_weights(void) {
    pthread_t users[USERS];
    CHECK(pthread_barrier_init(&start, NULL, USERS) == 0);
    for (int i = 0; i < USERS; ++i) CHECK(pthread_create(&users[i], NULL, use, NULL) == 0);
    for (int i = 0; i < USERS; ++i) CHECK(pthread_join(users[i], NULL) == 0);
}

int main(void) {
    RUN(each_reads_its_own_weights);
    return 0;
}
