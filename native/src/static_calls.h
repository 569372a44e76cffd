/*
 * The calls of some functions inside a program that was linked statically: the instructions with a
 * 32-bit distance to one of them, told by decoding from the start of the function in which they
 * stand, and the tables of pointers to them. Only x86-64 is known.
 */
#ifndef NM_STATIC_CALLS_H
#define NM_STATIC_CALLS_H

#include "static_elf.h"

/* A function of the program, where it lies in memory. by_pointer: it is reached through tables of
 * pointers, and calls of it in code are left alone. */
struct nm_entry {
    uintptr_t start;
    size_t bytes;
    int symbol; /* the caller's number for it */
    bool by_pointer;
    bool calls_unknown; /* so do all its callers think */
    int leads;          /* found */
};

/* A distance in code (4 bytes, counted from behind them) or a pointer (8) that leads to it. */
struct nm_lead {
    uintptr_t at;
    int entry;
    bool is_pointer, judged, is_call;
};

struct nm_leads {
    struct nm_lead *lead; /* by address: first all in code, then pointers */
    size_t count, room;
    char doubt[200]; /* why not all of them are certain; "" when they are */
};

/* Finds them in the program that `elf` describes, loaded `bias` bytes behind its own addresses.
 * Entries in order of their addresses. False without memory. What may or may not be a call is a
 * doubt; a call that a compiler may have made to fit the function (static_files.h) is left out.
 * nm_leads_free in any case. */
bool nm_leads_find(struct nm_leads *leads, const struct nm_elf *elf, uintptr_t bias,
                   struct nm_entry *entries, int entry_count);
void nm_leads_free(struct nm_leads *leads);

#endif
