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
    unsigned device_major, device_minor;
    uint64_t inode;
    const char *path; /* until the next line is read */
};

/* A reading of the maps. Its line grows with the longest path, which may have any length. */
struct nm_maps {
    FILE *file;
    char *line;
    size_t room;
};

/* Reads one line, whose newline it takes off; `file->path` points into it. False for what shows no
 * file. */
bool nm_mapped_file_parse(char *line, struct nm_mapped_file *file);

/* Opens the maps, or goes back to their beginning. What cannot be opened has no lines. */
void nm_maps_begin(struct nm_maps *maps);

/* The next line that shows a file; false at the end. */
bool nm_maps_next(struct nm_maps *maps, struct nm_mapped_file *file);

void nm_maps_end(struct nm_maps *maps);

#endif
