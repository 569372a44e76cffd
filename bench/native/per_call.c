/* How long the stand-in engine takes for a call that passes a seam.
 *
 *     per_call KIND CALLS BLOCKS
 *
 * Prints, for each block of that many calls, the nanoseconds of one. Run it with and without the
 * shim in LD_PRELOAD: the difference is what the seam adds. The engine's kernels only book what
 * they are given, so that nothing hides the seam. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "stand_in/stand_in.h"

enum { MIB = 1 << 20, ROWS_PER_OP = 1000 };

static const struct kind {
    const char *name;
    int op, type;
    int rows; /* of each op; the unit is then a row, not an op */
} kinds[] = {
    {"other-op", OP_ADD, TYPE_F32, 1},
    {"mul_mat", OP_MUL_MAT, TYPE_F32, 1},
    {"mul_mat-extra", OP_MUL_MAT, TYPE_EXTRA, 1},
    {"mul_mat_id-tiled", OP_MUL_MAT_ID, TYPE_TILED, 1},
    {"vec_dot", OP_MUL_MAT_ID, TYPE_F32, ROWS_PER_OP},
};

static const struct kind *kind_called(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    fprintf(stderr, "per_call: there is no kind of call named %s\n", name);
    exit(2);
}

/* Of this thread's own work, so that other programs of the machine count less. */
static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static struct tensor new_weight(char *data, int type) {
    struct tensor t = {.type = type, .ne = {256, 2048, 1, 1}, .data = data};
    t.nb[0] = 4;
    t.nb[1] = 1024;
    t.nb[2] = t.nb[3] = 2 * MIB;
    return t;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: per_call KIND CALLS BLOCKS\n"), 2;
    const struct kind *kind = kind_called(argv[1]);
    int ops = (int)(atol(argv[2]) / kind->rows);
    size_t bytes = 8 * MIB;
    char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return perror("per_call: mmap"), 1;
    memset(data, 'w', bytes);
    struct buffer model = {.base = data, .size = bytes, .host = true};
    stand_in_mark_weights(&model);
    struct tensor weight = new_weight(data, kind->type);
    static float elsewhere[64];
    struct tensor op = {.op = kind->op, .data = elsewhere, .src = {&weight}};
    for (int i = 0; i < 3; ++i) stand_in_compute_rows(&op, 100, kind->rows); /* builds replicas */
    for (int block = 0; block < atoi(argv[3]); ++block) {
        double begun = now_ns();
        stand_in_compute_rows(&op, ops, kind->rows);
        printf("%.3f\n", (now_ns() - begun) / ops / kind->rows);
    }
    /* So that a run in which nothing was redirected is not taken for a fast one. */
    const char *read_at = stand_in_booking()->weight;
    bool primary = read_at >= data && read_at < data + bytes;
    fprintf(stderr, "%s\n", read_at == NULL ? "nothing" : primary ? "primary" : "replica");
    return 0;
}
