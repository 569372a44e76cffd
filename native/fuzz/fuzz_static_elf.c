/* A program's file. Nothing outside of it is looked at, whatever its tables say. */
#include <unistd.h>

#include "fuzz.h"
#include "static_calls.h"
#include "static_files.h"
#include "sys.h"

/* As `check` has it looked through, with the file's first function for one of the engine's. */
static void look_through(const struct nm_elf *elf, int fd) {
    struct nm_elf_image image;
    struct nm_leads leads;
    struct nm_entry entry = {0};
    if (!nm_elf_load(&image, elf, fd)) return;
    for (size_t i = 0; i < elf->symbol_count && entry.bytes == 0; ++i)
        if (nm_elf_is_function(elf, &elf->symbols[i]))
            entry = (struct nm_entry){.start = image.bias + elf->symbols[i].st_value,
                                      .bytes = elf->symbols[i].st_size};
    nm_leads_find(&leads, elf, image.bias, &entry, entry.bytes > 0);
    nm_leads_free(&leads);
    nm_elf_unload(&image);
}

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
        look_through(&elf, fd);
        nm_elf_free(&elf);
    }
    close(fd);
    return 0;
}
