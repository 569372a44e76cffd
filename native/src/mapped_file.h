/* The files that this process has mapped, from /proc/self/maps (proc(5)). */
#ifndef NM_MAPPED_FILE_H
#define NM_MAPPED_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct nm_mapped_file {
    uintptr_t start, end;
    uint64_t offset; /* in the file, of `start` */
    bool readable, writable, shared;
    char path[1024];
};

/* The next line of /proc/self/maps that shows a file; false at the end. */
bool nm_mapped_file_next(FILE *maps, struct nm_mapped_file *file);

#endif
