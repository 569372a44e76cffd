/* Counts the table up and tells the status page and the launcher. */
#ifndef NM_TELL_H
#define NM_TELL_H

#include "table.h"

/* Caller holds the registry's lock. `reason`: why something is not mirrored; "": nothing new is,
 * and what was said of the rest stands. */
void nm_tell(const struct nm_table *table, const char *reason);

/* The launcher's events for a build that has ended; the figures are those of the last nm_tell. */
void nm_tell_coverage(void);

#endif
