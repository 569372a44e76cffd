#include "static_files.h"

#include <stdlib.h>

#include "static_x86.h"

static int by_address(const void *a, const void *b) {
    uint64_t left = ((const struct nm_placed *)a)->start;
    uint64_t right = ((const struct nm_placed *)b)->start;
    return left < right ? -1 : left > right;
}

bool nm_files_read(struct nm_files *files, const struct nm_elf *elf) {
    int file = 0;
    bool named = false; /* behind a nameless one, ld lists what it made private itself */
    *files = (struct nm_files){malloc((elf->symbol_count + 1) * sizeof(struct nm_placed)), 0};
    if (files->function == NULL) return false;
    for (size_t i = 0; i < elf->symbol_count; ++i) {
        const Elf64_Sym *symbol = &elf->symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FILE) {
            ++file;
            named = nm_elf_name(elf, symbol)[0] != '\0';
        } else if (named && ELF64_ST_BIND(symbol->st_info) == STB_LOCAL &&
                   nm_elf_is_function(elf, symbol)) {
            files->function[files->count++] = (struct nm_placed){symbol->st_value, file};
        }
    }
    qsort(files->function, files->count, sizeof *files->function, by_address);
    return true;
}

void nm_files_free(struct nm_files *files) {
    free(files->function);
    *files = (struct nm_files){0};
}

/* The first that begins behind the address. */
static size_t first_behind(const struct nm_files *files, uint64_t address) {
    size_t low = 0, high = files->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (files->function[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct neighbours {
    int below, above;
};

/* A private function is its own neighbour. */
static struct neighbours neighbours_of(const struct nm_files *files, uint64_t address) {
    size_t behind = first_behind(files, address);
    const struct nm_placed *below = behind > 0 ? &files->function[behind - 1] : NULL;
    if (below != NULL && below->start == address)
        return (struct neighbours){below->file, below->file};
    return (struct neighbours){below != NULL ? below->file : 0,
                               behind < files->count ? files->function[behind].file : 0};
}

bool nm_files_may_agree(const struct nm_files *files, uint64_t one, uint64_t other) {
    struct neighbours a = neighbours_of(files, one), b = neighbours_of(files, other);
    return a.below == b.below || a.below == b.above || a.above == b.below || a.above == b.above;
}

/* FF /2, or FF /4 with an address in a register and so not in a table of jumps. */
static bool goes_by_pointer(const unsigned char *code) {
    unsigned mode = code[1] >> 6, what = (code[1] >> 3) & 7, rm = code[1] & 7;
    if (code[0] != 0xFF) return false;
    return what == 2 || (what == 4 && (mode == 1 || mode == 2) && rm != 4);
}

bool nm_calls_unknown(const unsigned char *code, size_t bytes) {
    for (size_t i = 0, opcode, length; i < bytes; i += length) {
        length = nm_x86_length(code + i, bytes - i, &opcode);
        if (length == 0) return false;
        if (opcode + 1 < length && goes_by_pointer(code + i + opcode)) return true;
    }
    return false;
}
