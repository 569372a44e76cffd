/*
 * Shard: huge pages for weights that the engine has not written yet. A huge page moves as a whole,
 * so it must hold rows of one node only, and lie there from the start. Which rows a node reads
 * depends, but for rounding, not on the number of threads as long as the nodes divide it.
 */
#ifndef NM_FIRST_TOUCH_H
#define NM_FIRST_TOUCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A weight as it will be: `rows` in each slab of slab_bytes. */
struct nm_shape {
    uintptr_t start;
    size_t bytes;
    size_t slab_bytes;
    int64_t rows;
};

/* Gives the weight a huge page from its node wherever all rows of one belong to a node, and leaves
 * 4-KiB pages elsewhere. Only memory in which nothing was touched; does nothing where a node's
 * rows of a slab are less than two huge pages. Takes no lock of the registry. */
void nm_first_touch(const struct nm_shape *weight);

/* The address by which a page is given to a node: the middle of its huge page where it was given
 * one, else its own middle. */
uintptr_t nm_middle_of_page(uintptr_t page);

/* Bytes of such memory that the kernel says are in huge pages now. */
size_t nm_first_touch_huge_bytes(void);

/* The memory is given back. */
void nm_first_touch_forget(uintptr_t start, size_t bytes);

/* Held while the list of what was given is read or changed; for init.c alone. */
extern pthread_mutex_t nm_first_touch_lock;

#endif
