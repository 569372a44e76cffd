/* What the tests of the front share: an active shim, a model, ops on it. */
#ifndef FRONT_H
#define FRONT_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "stand_in/stand_in.h"

enum { MIB = 1 << 20 };

static inline char *new_memory(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memset(memory, 'w', bytes);
    return memory;
}

static inline struct buffer new_model(size_t bytes) {
    return (struct buffer){.base = new_memory(bytes), .size = bytes, .host = true};
}

static inline struct tensor new_weight(char *data, int type, size_t bytes) {
    struct tensor t = {.type = type, .ne = {256, (int64_t)(bytes / 1024), 1, 1}, .data = data};
    t.nb[0] = 4;
    t.nb[1] = 1024;
    t.nb[2] = t.nb[3] = bytes;
    return t;
}

static inline struct tensor new_op(int op, struct tensor *weight) {
    static float elsewhere[64];
    return (struct tensor){.op = op, .data = elsewhere, .src = {weight}};
}

/* Where the primary's byte is read instead: the address that the kernels booked. */
static inline const char *read_at(struct tensor *op) {
    *stand_in_booking() = (struct booking){0};
    CHECK(stand_in_compute(op, 1, 1) == 0);
    CHECK(stand_in_booking()->calls == 1 && stand_in_booking()->arguments_intact);
    return stand_in_booking()->weight;
}

#endif
