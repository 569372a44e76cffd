/* Readers look up without a lock while other models come and go: for the thread sanitizer. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "build.h"
#include "check.h"
#include "config.h"
#include "registry.h"

enum { MIB = 1 << 20, ROUNDS = 100, READERS = 3 };

static char *lasting;
static _Atomic int stop;

/* One graph after the other on the lasting model: its bytes are right from whichever copy. */
static void *compute(void *argument) {
    int copy = (int)(size_t)argument % nm_config.copies;
    while (!atomic_load(&stop)) {
        nm_registry_enter();
        const struct nm_table *table = atomic_load_explicit(&nm_table, memory_order_acquire);
        const struct nm_weight *weight = nm_table_find(table, (uintptr_t)lasting + 4096);
        CHECK(weight != NULL && weight->start == (uintptr_t)lasting);
        CHECK(lasting[4096 + weight->delta[copy]] == 'w');
        nm_registry_leave();
    }
    return NULL;
}

static char *load_model(void) {
    char *model = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(model, 'w', MIB);
    nm_registry_add_buffer(model, model, MIB, true);
    struct nm_candidate one = {.start = (uintptr_t)model, .bytes = MIB};
    nm_build(&one, 1, true, "");
    return model;
}

static void models_come_and_go_while_another_computes(void) {
    nm_config.active = true;
    nm_config.rehearsal = nm_config.copies = 2;
    nm_config.copy_home = true;
    lasting = load_model();
    pthread_t readers[READERS];
    for (size_t i = 0; i < READERS; ++i) pthread_create(&readers[i], NULL, compute, (void *)i);
    for (int round = 0; round < ROUNDS; ++round) {
        char *model = load_model();
        nm_registry_drop_buffer(model);
        munmap(model, MIB);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; ++i) pthread_join(readers[i], NULL);
    nm_registry_drop_buffer(lasting);
    CHECK(atomic_load(&nm_table) == NULL || atomic_load(&nm_table)->count == 0);
    CHECK(atomic_load(&nm_registry.retired) == NULL);
}

int main(void) {
    RUN(models_come_and_go_while_another_computes);
    return 0;
}
