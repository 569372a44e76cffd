/* Threads on the nodes of their copies: --pin, and the ground on which shard stands. */
#ifndef NM_PIN_H
#define NM_PIN_H

#include <stddef.h>

#include "config.h"
#include "thread.h"

/* Binds the calling thread to the CPUs of its copy (partition.h), one for each physical core as
 * long as there are enough: at its first op, and again when it was taken to another node. A syscall
 * only then. */
void nm_pin_thread(struct nm_thread *thread, int ith, int nth);

/* The CPUs on which the thread that calls into the engine may run are the application's affair:
 * they are kept before a graph and given back after. */
struct nm_cpus {
    size_t bytes; /* that the kernel told; 0: it did not */
    unsigned long mask[NM_MAX_CPUS / (8 * sizeof(unsigned long))];
};
void nm_pin_keep_cpus(struct nm_cpus *cpus);
void nm_pin_give_back_cpus(const struct nm_cpus *cpus, struct nm_thread *thread);

#endif
