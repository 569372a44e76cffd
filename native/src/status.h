/* The writer's side of the status page (numamirror_status.h). */
#ifndef NM_STATUS_H
#define NM_STATUS_H

#include "numamirror_status.h"

/* The page: a shared memfd once opened, else a private one that nobody reads. Never NULL. */
extern struct nm_status *nm_status;

/* Creates the page, fills its constant part from nm_config, and announces it to the launcher.
 * Call once; without memfd_create the page stays private, and a note says so. */
void nm_status_open(void);

/* After fork, the child's counts must not mix with its parent's. */
void nm_status_leave(void);

/* Writers of anything but `thread` bracket their stores; callers hold the registry's lock. */
void nm_status_begin(void);
void nm_status_end(void);

/* Sets state and reason, bracketed; a reason of NULL keeps the one that stands. */
void nm_status_set(enum nm_state state, const char *reason);

#endif
