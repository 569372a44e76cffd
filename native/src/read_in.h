/*
 * Weights of a mapped file, which may not be in the page cache yet. Engines map with MADV_RANDOM on
 * machines with several nodes: each page fault then reads one page. Reading the file reads ahead.
 */
#ifndef NM_READ_IN_H
#define NM_READ_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NM_READ_BLOCK = 256 << 10, NM_READ_FILES = 64 };

struct nm_read_file {
    uintptr_t start, end; /* where it is mapped */
    uint64_t offset;
    int fd;
    bool mincore_tells; /* what is in the page cache */
    bool shows_all;     /* the mapping has the file's own bytes, in all of it */
};

struct nm_read_in {
    size_t count;
    struct nm_read_file file[NM_READ_FILES];
};

/* Opens the files mapped in [low, high); those that cannot be are left out. */
void nm_read_in_open(struct nm_read_in *files, uintptr_t low, uintptr_t high);
void nm_read_in_close(struct nm_read_in *files);

/* The file that all of those bytes of memory are mapped from; NULL for other memory. */
const struct nm_read_file *nm_read_in_file(const struct nm_read_in *files, const char *start,
                                           size_t bytes);

/* Whether some of it is not in the page cache, as far as samples tell. */
bool nm_read_in_needed(const struct nm_read_file *file, const char *start, size_t bytes);

/* Reads what is mapped at `start` into the page cache, and to `to`; whether all of it came. Of a
 * file that does not show all, those need not be the weight's bytes: only the memory says. */
bool nm_read_in(const struct nm_read_file *file, const char *start, size_t bytes, char *to);

#endif
