/*
 * The symbol table of a program's file (.symtab, elf(5)), which the loader does not map. The file
 * is somebody else's: whatever it holds, nothing outside what was read is looked at.
 */
#ifndef NM_STATIC_ELF_H
#define NM_STATIC_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NM_ELF_SEGMENTS = 64 };

struct nm_elf {
    Elf64_Ehdr header;
    Elf64_Phdr segment[NM_ELF_SEGMENTS];
    Elf64_Sym *symbols;
    char *strings; /* the last byte is 0 */
    size_t symbol_count, string_bytes;
};

/* Reads a 64-bit program of this machine's byte order and its symbol table. False, and nothing to
 * free, when the file is none or has none. */
bool nm_elf_read(struct nm_elf *elf, int fd);
void nm_elf_free(struct nm_elf *elf);

/* "" when the symbol's name lies outside the strings. */
const char *nm_elf_name(const struct nm_elf *elf, const Elf64_Sym *symbol);

/* The segment that is loaded from [start, start + bytes) of the file's addresses, or NULL. */
const Elf64_Phdr *nm_elf_segment_of(const struct nm_elf *elf, uint64_t start, uint64_t bytes);

/* Whether the address, one of the file's own, lies in a segment that is loaded. */
bool nm_elf_covers(const struct nm_elf *elf, uint64_t address);

/* Whether the symbol is a function (or an object) that is defined in a loaded segment. */
bool nm_elf_is_function(const struct nm_elf *elf, const Elf64_Sym *symbol);
bool nm_elf_is_object(const struct nm_elf *elf, const Elf64_Sym *symbol);

/* The loaded segments as the file has them, in memory of our own; unrelocated. bias: what is added
 * to the file's addresses. */
struct nm_elf_image {
    void *memory;
    size_t bytes;
    uintptr_t bias;
};

/* False when the file is shorter than it says, or larger than a program may be. */
bool nm_elf_load(struct nm_elf_image *image, const struct nm_elf *elf, int fd);
void nm_elf_unload(struct nm_elf_image *image);

/* Whether the engine's files were compiled one by one: else, by link-time optimisation or in one
 * piece, functions of one are inlined into others. The table then has no file of that name. */
bool nm_elf_has_files(const struct nm_elf *elf);

#endif
