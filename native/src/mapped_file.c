#include "mapped_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool nm_mapped_file_parse(char *line, struct nm_mapped_file *file) {
    char rights[5];
    int path_at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &file->start,
               &file->end, rights, &file->offset, &file->device_major, &file->device_minor,
               &file->inode, &path_at) < 7)
        return false;
    file->path = line + path_at;
    file->readable = rights[0] == 'r';
    file->writable = strchr(rights, 'w') != NULL;
    file->shared = strlen(rights) == 4 && rights[3] == 's';
    return file->start < file->end && path_at > 0 && file->path[0] == '/';
}

void nm_maps_begin(struct nm_maps *maps) {
    if (maps->file != NULL)
        rewind(maps->file);
    else
        maps->file = fopen("/proc/self/maps", "re");
}

bool nm_maps_next(struct nm_maps *maps, struct nm_mapped_file *file) {
    while (maps->file != NULL && getline(&maps->line, &maps->room, maps->file) > 0)
        if (nm_mapped_file_parse(maps->line, file)) return true;
    return false;
}

void nm_maps_end(struct nm_maps *maps) {
    if (maps->file != NULL) fclose(maps->file);
    free(maps->line);
    memset(maps, 0, sizeof *maps);
}
