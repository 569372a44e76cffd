/* Where the engine's own weights lie, looked at again and again while it works. */
#ifndef NM_OBSERVE_H
#define NM_OBSERVE_H

#include <stddef.h>

/* Asks the kernel for a sample of every weight's pages, a second or more after the last time; with
 * `now` at once. The reads of a thread count as local as far as the sample is on its node. */
void nm_observe(int now);

/* Counts a graph of one token that read so many bytes of weights. */
void nm_observe_token(size_t bytes);

#endif
