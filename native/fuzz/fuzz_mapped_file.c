/* A line of /proc/self/maps. */
#include "fuzz.h"
#include "mapped_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct nm_mapped_file file;
    char *line = fuzz_text(data, bytes);
    if (nm_mapped_file_parse(line, &file)) {
        if (file.start >= file.end || file.path[0] != '/') abort();
        if (file.path < line || file.path + strlen(file.path) > line + bytes) abort();
    }
    free(line);
    return 0;
}
