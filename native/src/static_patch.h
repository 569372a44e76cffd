/*
 * Points the leads to functions of a program at other functions. Code is writable or executable,
 * never both; on a failure all is made as it was.
 */
#ifndef NM_STATIC_PATCH_H
#define NM_STATIC_PATCH_H

#include "static_calls.h"

/* Each lead then goes to instead[its entry]. fd: the program's file. NULL on success, else what
 * failed. *remains: whether some leads were changed and could not be changed back. Only while no
 * other thread can run the program's code. */
const char *nm_patch_leads(const struct nm_leads *leads, const struct nm_elf *elf, uintptr_t bias,
                           int fd, const struct nm_entry *entries, void *const *instead,
                           int entry_count, bool *remains);

/* Why the system would not let this process change code at an address of that file, or NULL. Tried
 * on pages of its own. */
const char *nm_patch_forbidden(const struct nm_elf *elf, int fd, uint64_t address);

#endif
