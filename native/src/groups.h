/*
 * Observed reads by groups of tensors: a model has thousands of tensors, and some twenty kinds.
 * Each thread counts in a row of its own; the sums go to the status page after each graph.
 */
#ifndef NM_GROUPS_H
#define NM_GROUPS_H

#include <stddef.h>

#include "numamirror_status.h"
#include "table.h"

enum { NM_NO_GROUP = -1 };

/* The group of a tensor of that name, a new one while there is room; its index in the status page.
 * Caller holds the registry's lock. */
int nm_group_of(const char *name);

/* Counts a read of the thread whose entry that is. No lock, no call. */
void nm_group_read(const struct nm_status_thread *thread, int group, size_t local, size_t other);

/* Puts what was read so far on the status page. Caller holds the registry's lock. */
void nm_groups_sum(void);

/* Counts each group's tensors and bytes anew; between nm_status_begin and _end. */
void nm_groups_tell(const struct nm_table *table);

#endif
