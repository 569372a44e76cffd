/*
 * Host memory in which the engine computes and keeps its caches. The shim leaves it alone: it is
 * told on the status page, for `inspect`, which asks the kernel where it lies.
 */
#ifndef NM_SCRATCH_H
#define NM_SCRATCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Graphs that are still to be looked through for ops that write to memory of unknown purpose. */
extern _Atomic int nm_scratch_looks;

/* Remembers memory that the engine has allotted without a word on its purpose. What finds no room
 * in the table is not told. */
void nm_scratch_add(const void *id, const void *start, size_t bytes);

/* The engine has said that it computes there. */
void nm_scratch_computes(const void *id);

/* An op writes to the address: what lies there is no weight, and a cache if the engine has not
 * said that it computes there. */
void nm_scratch_written(uintptr_t address);

/* The memory holds weights, or is freed. */
void nm_scratch_drop(const void *id);

#endif
