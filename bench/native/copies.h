/* The ways of copying that replicas are measured against. */
#ifndef BENCH_COPIES_H
#define BENCH_COPIES_H

#include <stdbool.h>
#include <stddef.h>

struct source {
    char *start;
    size_t bytes; /* a multiple of 2 MiB */
    int file;     /* whose mapping it is, from offset 0; -1: anonymous */
};

struct way {
    const char *name;
    bool of_file; /* reads the file, not its mapping */
    /* Copies the source to pages that nobody has touched yet; returns them, from mmap. */
    char *(*copy)(const struct source *source);
};

extern const struct way bench_ways[];
extern const size_t bench_way_count;

#endif
