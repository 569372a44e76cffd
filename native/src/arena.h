/* Memory for replicas: one anonymous mapping per copy and build, policy set before it is touched.
 */
#ifndef NM_ARENA_H
#define NM_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

enum { NM_MAX_PINS = 16 };

struct nm_arena {
    char *start;
    size_t bytes; /* address space, a multiple of 2 MiB */
    size_t used;
    size_t live; /* bytes of weights that still need it; 0: can go */
    int copy;
    int policy_error; /* errno of mbind; 0: the policy stands */
    /* ranges that a GPU's driver keeps in place; `pinned` bytes from the start on are in one */
    char *pin[NM_MAX_PINS];
    int pins;
    size_t pinned;
    void (*unpin)(void *start);
    struct nm_arena *next;
};

/* Maps room for `bytes` on the copy's nodes; NULL (errno set) when the kernel refuses. */
struct nm_arena *nm_arena_new(int copy, size_t bytes);
void nm_arena_free(struct nm_arena *arena);

/* Takes room for a weight, keeping its address modulo 64 (kernels of the engine rely on the
 * alignment of its own buffers). NULL when it is full. */
char *nm_arena_take(struct nm_arena *arena, const void *primary, size_t bytes);

/* Before what was taken is filled: where it ends inside a huge page, that block gets small ones, so
 * that no more memory is used than weights fill. khugepaged may join them one day: the mapping is
 * left whole, by which `inspect` knows it, and not split for at most 2 MiB. */
void nm_arena_end_small(const struct nm_arena *arena);

/* Pins what is used and not pinned yet, until the arena is freed. False when that fails. */
bool nm_arena_pin(struct nm_arena *arena, bool (*pin)(void *start, size_t bytes),
                  void (*unpin)(void *start));

/* Address space to ask for so that nm_arena_take succeeds for `count` weights of `bytes` in all. */
size_t nm_arena_need(size_t bytes, size_t count);

#endif
