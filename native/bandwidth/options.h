/* What is to be measured, as the command line says it. */
#ifndef NM_BANDWIDTH_OPTIONS_H
#define NM_BANDWIDTH_OPTIONS_H

#include <stddef.h>

enum { NM_MOST_CPUS = 8192 }; /* as many as the kernel can be built for */

struct nm_options {
    int readers[NM_MOST_CPUS]; /* one thread on each of these CPUs reads */
    int reader_count;
    int fillers[NM_MOST_CPUS]; /* these touch the memory first; the readers when there are none */
    int filler_count;
    int node;       /* where the memory is to lie; -1: wherever the kernel puts it */
    size_t bytes;   /* of memory */
    double seconds; /* for each of the three measurements */
};

/* Returns NULL, or what is wrong with the words. */
const char *nm_options_read(int count, char **words, struct nm_options *options);

/* "0,2-5" -> CPU numbers. Returns how many, or -1. */
int nm_cpus_read(const char *text, int *cpus);

#endif
