/* A program's file. Nothing outside of it is looked at, whatever its tables say. */
#include <unistd.h>

#include "fuzz.h"
#include "static_files.h"
#include "sys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct nm_elf elf;
    struct nm_files files;
    int fd = nm_memfd("program");
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes) abort();
    if (nm_elf_read(&elf, fd)) {
        size_t length = 0;
        for (size_t i = 0; i < elf.symbol_count; ++i)
            length += strlen(nm_elf_name(&elf, &elf.symbols[i]));
        if (nm_files_read(&files, &elf)) {
            if (files.count > elf.symbol_count) abort();
            nm_files_may_agree(&files, length, bytes);
            nm_files_free(&files);
        }
        nm_elf_has_files(&elf);
        nm_elf_free(&elf);
    }
    close(fd);
    return 0;
}
