/* What is timed: reading memory from one end to the other, and following a chain through it. */
#ifndef NM_BANDWIDTH_KERNELS_H
#define NM_BANDWIDTH_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* The line after `line` in a chain that visits each of `lines` (a power of two) once: a linear
 * congruential generator whose period is full (multiplier 1 mod 4, odd increment: Hull and
 * Dobell), so that no prefetcher knows the next address. Lines beyond are not in the chain. */
static inline uint64_t nm_next_line(uint64_t line, size_t lines) {
    return (line * 0x5851f42d4c957f2du + 0x14057b7ef767814fu) & (lines - 1);
}

/* Reads `bytes` (a multiple of 256) and returns something that depends on all of it. */
uint64_t nm_stream(const uint64_t *words, size_t bytes);

/* Follows the chain of memory.h for that many steps from `line`; each load needs the last one. */
uint64_t nm_chase(const uint64_t *words, uint64_t line, size_t steps);

#endif
