/* Filling replicas: several threads that run on the target node copy large pieces side by side. */
#ifndef NM_FILL_H
#define NM_FILL_H

#include <stddef.h>
#include <stdint.h>

struct nm_piece {
    const char *from;
    char *to;
    size_t bytes;
};

/* One copy's work. `pieces` stay the caller's. */
struct nm_fill {
    int copy;
    const struct nm_piece *pieces;
    size_t count;
    size_t bytes; /* sum over the pieces */
    /* results */
    uint64_t ns;
    unsigned threads;
    int affinity_error; /* errno when a thread could not move to its node; 0 else */
};

/* Does all fills at once and waits; `progress` is called about ten times a second with the bytes
 * done for fill `index`. Without threads the caller copies alone: it always completes. */
void nm_fill_run(struct nm_fill *fills, size_t count, void (*progress)(size_t index, size_t done));

#endif
