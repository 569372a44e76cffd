/* --adapt: when not all fits, the first tokens show which experts are worth copying. */
#ifndef NM_ADAPT_H
#define NM_ADAPT_H

#include <stdatomic.h>
#include <stdbool.h>

/* Some experts are being counted. */
extern _Atomic bool nm_counting;

/* Copies the experts that were read most once enough tokens are counted; after a graph. */
void nm_adapt(void);

#endif
