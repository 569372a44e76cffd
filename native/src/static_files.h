/*
 * Which source file a function of a program came from, by its symbol table. Within a file, a
 * compiler may know which registers a function leaves alone, and keep values in them across a call
 * (gcc: -fipa-ra): such a call must not be led elsewhere.
 */
#ifndef NM_STATIC_FILES_H
#define NM_STATIC_FILES_H

#include "static_elf.h"

struct nm_placed {
    uint64_t start;
    int file;
};

struct nm_files {
    struct nm_placed *function; /* those that are private to their file, by address */
    size_t count;
};

/* False without memory. */
bool nm_files_read(struct nm_files *files, const struct nm_elf *elf);
void nm_files_free(struct nm_files *files);

/* Whether functions at two of the program's own addresses may come from one file. Files lie one
 * behind the other: a function is of the file of its nearest private neighbour below or above. */
bool nm_files_may_agree(const struct nm_files *files, uint64_t one, uint64_t other);

/* Whether the compiler must take it that the function changes all registers that it may: it calls
 * through a pointer. code: all of it. */
bool nm_calls_unknown(const unsigned char *code, size_t bytes);

#endif
