#include "mapped_file.h"

#include <inttypes.h>
#include <string.h>

static bool parse(const char *line, struct nm_mapped_file *file) {
    char rights[5];
    int path_at = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*s %*s %n", &file->start,
               &file->end, rights, &file->offset, &path_at) < 4)
        return false;
    if (path_at == 0 || line[path_at] != '/') return false;
    file->readable = rights[0] == 'r';
    file->writable = rights[1] == 'w';
    file->shared = rights[3] == 's';
    snprintf(file->path, sizeof file->path, "%s", line + path_at);
    file->path[strcspn(file->path, "\n")] = '\0';
    return true;
}

bool nm_mapped_file_next(FILE *maps, struct nm_mapped_file *file) {
    char line[1200];
    while (fgets(line, sizeof line, maps) != NULL)
        if (parse(line, file)) return true;
    return false;
}
