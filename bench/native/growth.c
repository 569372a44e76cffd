/* What grows with the number of weights and with their size.
 *
 *     growth lookup WEIGHTS BLOCKS     nanoseconds to find the weight of an address
 *     growth build WEIGHTS MIB ROUNDS  milliseconds to mirror that many weights of MIB in all
 *     growth heap WEIGHTS              bytes of heap that the shim keeps for them
 *
 * A lookup is asked for the weights in the order in which a graph has them, then in a random one.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "build.h"
#include "config.h"
#include "registry.h"

enum { LOOKUPS = 1 << 20, GAP = 64 };

static double ns_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *room_for(size_t count, size_t bytes) {
    void *room = calloc(count, bytes);
    if (room == NULL) exit(1);
    return room;
}

/* ---- lookup ---- */

static struct nm_table *table_of(size_t count) {
    struct nm_table *table = nm_table_new(count, 1, 2);
    if (table == NULL) exit(1);
    for (size_t i = 0; i < count; ++i) {
        table->weights[i].start = (i + 1) << 24;
        table->weights[i].bytes = (size_t)1 << 23;
    }
    nm_table_seal(table);
    return table;
}

static double ns_per_lookup(const struct nm_table *table, const uint32_t *order) {
    size_t found = 0;
    double begun = ns_of(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < LOOKUPS; ++i) {
        uintptr_t address = ((uintptr_t)order[i] + 1) << 24;
        found += nm_table_find(table, address | (i & 0xffff)) != NULL;
    }
    double took = ns_of(CLOCK_THREAD_CPUTIME_ID) - begun;
    if (found != LOOKUPS) exit(1);
    return took / LOOKUPS;
}

static void lookup(size_t count, int blocks) {
    struct nm_table *table = table_of(count);
    uint32_t *ordered = room_for(LOOKUPS, sizeof *ordered);
    uint32_t *shuffled = room_for(LOOKUPS, sizeof *shuffled);
    srandom(27986);
    for (size_t i = 0; i < LOOKUPS; ++i) {
        ordered[i] = (uint32_t)(i % count);
        shuffled[i] = (uint32_t)((size_t)random() % count);
    }
    for (int block = 0; block < blocks; ++block) {
        printf("in order\t%.3f\n", ns_per_lookup(table, ordered));
        printf("at random\t%.3f\n", ns_per_lookup(table, shuffled));
    }
}

/* ---- build ---- */

static void rehearse(void) {
    nm_config.active = true;
    nm_config.rehearsal = nm_config.copies = 2;
    for (int i = 0; i < 2; ++i) {
        nm_config.copy[i].node_count = 1;
        nm_config.copy[i].nodes[0] = i;
    }
}

static void build(size_t count, size_t bytes, int rounds) {
    rehearse();
    char *model = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (model == MAP_FAILED) exit(1);
    memset(model, 'w', bytes);
    struct nm_candidate *list = room_for(count, sizeof *list);
    size_t part = bytes / count / GAP * GAP;
    for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < count; ++i)
            list[i] = (struct nm_candidate){.start = (uintptr_t)model + i * part, .bytes = part};
        nm_registry_add_buffer(model, model, bytes, true);
        double begun = ns_of(CLOCK_MONOTONIC);
        nm_build(list, count, true, "");
        printf("build\t%.3f\n", (ns_of(CLOCK_MONOTONIC) - begun) / 1e6);
        nm_registry_drop_buffer(model);
    }
}

static void heap(size_t count) {
    rehearse();
    size_t part = 64 << 10, bytes = count * part;
    char *model = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct nm_candidate *list = room_for(count, sizeof *list);
    if (model == MAP_FAILED) exit(1);
    for (size_t i = 0; i < count; ++i)
        list[i] = (struct nm_candidate){.start = (uintptr_t)model + i * part, .bytes = part};
    size_t before = mallinfo2().uordblks;
    nm_registry_add_buffer(model, model, bytes, true);
    nm_build(list, count, true, "");
    printf("%zu\n", mallinfo2().uordblks - before);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "lookup") == 0)
        lookup((size_t)atol(argv[2]), atoi(argv[3]));
    else if (argc == 5 && strcmp(argv[1], "build") == 0)
        build((size_t)atol(argv[2]), (size_t)atol(argv[3]) << 20, atoi(argv[4]));
    else if (argc == 3 && strcmp(argv[1], "heap") == 0)
        heap((size_t)atol(argv[2]));
    else
        return fprintf(stderr, "usage: growth lookup|build|heap ...\n"), 2;
    return 0;
}
