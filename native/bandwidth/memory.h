/* The memory that is read: huge pages, on one node, touched before it is measured. */
#ifndef NM_BANDWIDTH_MEMORY_H
#define NM_BANDWIDTH_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum { NM_LINE_WORDS = 8 }; /* 64 bytes: one cache line */

struct nm_memory {
    uint64_t *words;
    size_t bytes; /* a multiple of 2 MiB */
    size_t lines; /* in the chain: the largest power of two that fits */
    int policy_error;
};

/* Maps it and sets its policy; NULL words (errno set) when there is no room. node -1: no policy.
 * The policy is a preference, so that a full node ends in a sample that says so and not in a kill.
 */
struct nm_memory nm_memory_map(size_t bytes, int node);

/* A task of a team: writes every word, and with them the chain that nm_chase follows. */
void nm_memory_fill(void *memory, int member, int members);

/* Bytes of it that lie in huge pages, by /proc/self/smaps. */
size_t nm_memory_huge(const struct nm_memory *memory);

#endif
