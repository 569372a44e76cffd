/* Threads on the nodes of their copies: --pin, and the ground on which shard stands. */
#ifndef NM_PIN_H
#define NM_PIN_H

#include "thread.h"

/* Binds the calling thread to the CPUs of its copy (partition.h), one for each physical core as
 * long as there are enough: at its first op, and again when it was taken to another node. A syscall
 * only then. */
void nm_pin_thread(struct nm_thread *thread, int ith, int nth);

/* The mask of the thread that calls into the engine is the application's: it is kept before a
 * graph and given back after. */
void nm_pin_keep_mask(struct nm_thread *thread);
void nm_pin_give_back_mask(struct nm_thread *thread);

#endif
