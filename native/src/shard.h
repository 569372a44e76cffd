/*
 * Local reads at one copy: the engine's threads read fixed ranges of rows, and each range lies on
 * the node of its thread. Pages are moved in place; addresses and bytes stay.
 */
#ifndef NM_SHARD_H
#define NM_SHARD_H

#include <stddef.h>

/* What the last placing found, per copy: pages that its readers' rows fill, and those of them on
 * its node. Under the registry's lock. */
struct nm_shard_pages {
    size_t asked, local;
};
extern struct nm_shard_pages nm_shard_pages[];

/* Moves the pages of every weight to their readers' nodes for that number of threads, checks where
 * they went, and tells. */
void nm_shard_place(int threads);

#endif
