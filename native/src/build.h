/* From newly seen weights to replicas that were checked, and the table that leads to them. */
#ifndef NM_BUILD_H
#define NM_BUILD_H

#include "candidates.h"

/* Builds replicas of the candidates (the list is reduced in place), checks where they landed,
 * publishes the table and the status, and sends the events. seams_fire false: the weights are only
 * booked, with `reason` saying why. */
void nm_build(struct nm_candidate *candidates, size_t count, bool seams_fire, const char *reason);

#endif
