/* Where the engine's own weights lie, looked at again and again while it works. */
#ifndef NM_OBSERVE_H
#define NM_OBSERVE_H

#include <stddef.h>

#include "table.h"

/* Call after a graph. Asks the kernel for a sample of every weight's pages, a second or more after
 * the last time; with `now` at once. The reads of a thread count as local as far as the sample is
 * on its node. */
void nm_observe(int now);

/* Asks the kernel for a sample of one weight's pages and keeps, per copy, the share on its nodes; 0
 * or an errno. Pages that are not in memory count as on no node. changed: set, and never cleared,
 * when a share differs from what it was by more than a sample's noise. */
int nm_observe_weight(struct nm_weight *weight, bool *changed);

/* Pages that such a sample asks for. */
size_t nm_observe_pages(const struct nm_weight *weight);

/* Counts a graph of one token that read so many bytes of weights. */
void nm_observe_token(size_t bytes);

#endif
