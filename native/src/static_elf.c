#include "static_elf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 28 };

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset) {
    char *next = to;
    while (bytes > 0) {
        ssize_t got = pread(fd, next, bytes, (off_t)offset);
        if (got <= 0) return false;
        next += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

/* As much of the file as a section says it takes, in memory of its own; NULL for what is none. */
static void *read_section(int fd, const Elf64_Shdr *section, size_t room) {
    if (section->sh_size == 0 || section->sh_size > MOST_BYTES) return NULL;
    char *content = malloc(section->sh_size + room);
    if (content != NULL && read_at(fd, content, section->sh_size, section->sh_offset))
        return content;
    free(content);
    return NULL;
}

static bool read_header(struct nm_elf *elf, int fd) {
    const Elf64_Ehdr *header = &elf->header;
    if (!read_at(fd, &elf->header, sizeof *header, 0)) return false;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
        return false;
    if (header->e_type != ET_EXEC && header->e_type != ET_DYN) return false;
    if (header->e_phentsize != sizeof *elf->segment || header->e_phnum > NM_ELF_SEGMENTS)
        return false;
    size_t bytes = header->e_phnum * sizeof *elf->segment;
    return bytes > 0 && read_at(fd, elf->segment, bytes, header->e_phoff);
}

static bool read_table(struct nm_elf *elf, int fd, const Elf64_Shdr *table,
                       const Elf64_Shdr *strings) {
    elf->strings = read_section(fd, strings, 1);
    elf->symbols = read_section(fd, table, 0);
    if (elf->strings == NULL || elf->symbols == NULL) {
        nm_elf_free(elf);
        return false;
    }
    elf->strings[strings->sh_size] = '\0';
    elf->string_bytes = strings->sh_size;
    elf->symbol_count = table->sh_size / sizeof *elf->symbols;
    return true;
}

bool nm_elf_read(struct nm_elf *elf, int fd) {
    *elf = (struct nm_elf){0};
    if (!read_header(elf, fd)) return false;
    unsigned count = elf->header.e_shnum;
    if (count == 0 || elf->header.e_shentsize != sizeof(Elf64_Shdr)) return false;
    Elf64_Shdr *sections = malloc(count * sizeof *sections);
    bool found = false;
    if (sections != NULL && read_at(fd, sections, count * sizeof *sections, elf->header.e_shoff))
        for (unsigned i = 0; i < count && !found; ++i)
            if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < count)
                found = read_table(elf, fd, &sections[i], &sections[sections[i].sh_link]);
    free(sections);
    return found;
}

void nm_elf_free(struct nm_elf *elf) {
    free(elf->symbols);
    free(elf->strings);
    *elf = (struct nm_elf){0};
}

const char *nm_elf_name(const struct nm_elf *elf, const Elf64_Sym *symbol) {
    return symbol->st_name < elf->string_bytes ? elf->strings + symbol->st_name : "";
}

const Elf64_Phdr *nm_elf_segment_of(const struct nm_elf *elf, uint64_t start, uint64_t bytes) {
    for (unsigned i = 0; i < elf->header.e_phnum; ++i) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type != PT_LOAD || start < segment->p_vaddr) continue;
        uint64_t into = start - segment->p_vaddr;
        if (into <= segment->p_filesz && bytes <= segment->p_filesz - into) return segment;
    }
    return NULL;
}

bool nm_elf_covers(const struct nm_elf *elf, uint64_t address) {
    for (unsigned i = 0; i < elf->header.e_phnum; ++i)
        if (elf->segment[i].p_type == PT_LOAD &&
            address - elf->segment[i].p_vaddr < elf->segment[i].p_memsz)
            return true;
    return false;
}

static bool is_defined(const struct nm_elf *elf, const Elf64_Sym *symbol, unsigned type,
                       unsigned rights) {
    if (ELF64_ST_TYPE(symbol->st_info) != type || symbol->st_shndx == SHN_UNDEF) return false;
    if (symbol->st_size == 0) return false;
    const Elf64_Phdr *segment = nm_elf_segment_of(elf, symbol->st_value, symbol->st_size);
    return segment != NULL && (segment->p_flags & rights) == rights;
}

bool nm_elf_is_function(const struct nm_elf *elf, const Elf64_Sym *symbol) {
    return is_defined(elf, symbol, STT_FUNC, PF_R | PF_X);
}

bool nm_elf_is_object(const struct nm_elf *elf, const Elf64_Sym *symbol) {
    return is_defined(elf, symbol, STT_OBJECT, PF_R);
}

bool nm_elf_has_files(const struct nm_elf *elf) {
    static const char own[] = "ggml-backend.";
    for (size_t i = 0; i < elf->symbol_count; ++i) {
        if (ELF64_ST_TYPE(elf->symbols[i].st_info) != STT_FILE) continue;
        if (strncmp(nm_elf_name(elf, &elf->symbols[i]), own, sizeof own - 1) == 0) return true;
    }
    return false;
}

/* ---- its segments ---- */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static bool range_of(const struct nm_elf *elf, uint64_t *low, uint64_t *high) {
    *low = UINT64_MAX;
    *high = 0;
    for (unsigned i = 0; i < elf->header.e_phnum; ++i) {
        const Elf64_Phdr *segment = &elf->segment[i];
        uint64_t bytes = larger(segment->p_filesz, segment->p_memsz);
        if (segment->p_type != PT_LOAD) continue;
        if (bytes > MOST_BYTES || segment->p_vaddr > UINT64_MAX - MOST_BYTES) return false;
        if (segment->p_vaddr < *low) *low = segment->p_vaddr;
        *high = larger(*high, segment->p_vaddr + bytes);
    }
    return *low < *high && *high - *low <= MOST_BYTES;
}

bool nm_elf_load(struct nm_elf_image *image, const struct nm_elf *elf, int fd) {
    uint64_t low, high;
    if (!range_of(elf, &low, &high)) return false;
    image->bytes = high - low;
    image->memory = mmap(NULL, image->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image->memory == MAP_FAILED) return false;
    image->bias = (uintptr_t)image->memory - low;
    for (unsigned i = 0; i < elf->header.e_phnum; ++i) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type != PT_LOAD) continue;
        void *to = (char *)image->memory + (segment->p_vaddr - low);
        if (read_at(fd, to, segment->p_filesz, segment->p_offset)) continue;
        nm_elf_unload(image);
        return false;
    }
    return true;
}

void nm_elf_unload(struct nm_elf_image *image) {
    munmap(image->memory, image->bytes);
    *image = (struct nm_elf_image){0};
}
