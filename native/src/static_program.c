#include "static_program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "events.h"
#include "module.h"
#include "seam.h"
#include "static_patch.h"
#include "status.h"

static struct {
    bool adopted;
    struct nm_elf elf; /* its segments; the tables are freed */
    uintptr_t bias;
    void *function[NM_SYMBOLS];
} program;

bool nm_static_contains(const void *address) {
    return program.adopted && nm_elf_covers(&program.elf, (uintptr_t)address - program.bias);
}

void *nm_static_function(int symbol) { return program.function[symbol]; }

/* ---- the program in memory, and its file ---- */

struct loaded {
    uintptr_t bias;
    const ElfW(Phdr) * segments;
    unsigned count;
};

/* The loader names the program first. */
static int take_first(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    *(struct loaded *)context = (struct loaded){info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
    return 1;
}

static bool is_its_file(const struct loaded *loaded, const struct nm_elf *elf) {
    return elf->header.e_phnum == loaded->count &&
           memcmp(elf->segment, loaded->segments, loaded->count * sizeof *elf->segment) == 0;
}

/* The program's file with its symbol table, or -1. Under a loader that was started by its own name,
 * /proc/self/exe is the loader. */
static int open_file(const struct loaded *loaded, struct nm_elf *elf) {
    Dl_info info = {.dli_fname = ""};
    dladdr(loaded->segments, &info);
    const char *const paths[] = {"/proc/self/exe", info.dli_fname};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; ++i) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (nm_elf_read(elf, fd)) {
            if (is_its_file(loaded, elf)) return fd;
            nm_elf_free(elf);
        }
        close(fd);
    }
    return -1;
}

/* Its code is as in its file: another tool that changes code was not here before. */
static bool as_in_file(const struct nm_elf *elf, int fd, uintptr_t bias,
                       const struct nm_entry *entry) {
    unsigned char first[64];
    size_t bytes = entry->bytes < sizeof first ? entry->bytes : sizeof first;
    uint64_t address = entry->start - bias;
    const Elf64_Phdr *segment = nm_elf_segment_of(elf, address, bytes);
    off_t offset = (off_t)(segment->p_offset + address - segment->p_vaddr);
    return pread(fd, first, bytes, offset) == (ssize_t)bytes &&
           memcmp(first, (const void *)entry->start, bytes) == 0;
}

/* ---- its functions ---- */

struct adoption {
    struct loaded loaded;
    struct nm_elf elf;
    int fd;
    struct nm_entry entry[NM_SYMBOLS];
    void *instead[NM_SYMBOLS];
    int entries;
    bool remains; /* some calls lead here although not all do */
    char why[256];
};

static int symbol_called(const char *name) {
    if (strncmp(name, "ggml_", 5) != 0 && strncmp(name, "iqk_", 4) != 0) return -1;
    for (int i = 0; i < NM_SYMBOLS; ++i)
        if (strcmp(nm_symbol_name(i), name) == 0) return i;
    return -1;
}

/* Of two that differ neither is known to be the one. */
static void find_functions(const struct adoption *a, size_t *bytes, bool *twice) {
    for (size_t i = 0; i < a->elf.symbol_count; ++i) {
        const Elf64_Sym *symbol = &a->elf.symbols[i];
        if (!nm_elf_is_function(&a->elf, symbol)) continue;
        int known = symbol_called(nm_elf_name(&a->elf, symbol));
        if (known < 0) continue;
        void *found = (void *)(a->loaded.bias + symbol->st_value);
        twice[known] |= program.function[known] != NULL && program.function[known] != found;
        program.function[known] = found;
        bytes[known] = symbol->st_size;
    }
    for (int i = 0; i < NM_SYMBOLS; ++i)
        if (twice[i]) program.function[i] = NULL;
}

static int by_start(const void *a, const void *b) {
    uintptr_t left = ((const struct nm_entry *)a)->start;
    uintptr_t right = ((const struct nm_entry *)b)->start;
    return left < right ? -1 : left > right;
}

/* Those of shard: their callers have them compiled in, so that it is not possible here. */
static bool is_of_shard(int symbol) {
    return symbol == NM_SYM_ggml_is_numa || symbol == NM_SYM_ggml_threadpool_chunk_add;
}

static bool is_vec_dot(int symbol) {
    return strncmp(nm_symbol_name(symbol), "ggml_vec_dot_", 13) == 0;
}

static void list_entries(struct adoption *a, const size_t *bytes) {
    for (int i = 0; i < NM_SYMBOLS; ++i) {
        if (program.function[i] == NULL || is_of_shard(i) || nm_own_function(i) == NULL) continue;
        a->entry[a->entries++] = (struct nm_entry){.start = (uintptr_t)program.function[i],
                                                   .bytes = bytes[i],
                                                   .symbol = i,
                                                   .by_pointer = is_vec_dot(i)};
    }
    qsort(a->entry, (size_t)a->entries, sizeof *a->entry, by_start);
    for (int i = 0; i < a->entries; ++i) a->instead[i] = nm_own_function(a->entry[i].symbol);
}

/* ---- adopting it ---- */

static bool is_alone(void) {
    DIR *threads = opendir("/proc/self/task");
    int count = 0;
    if (threads == NULL) return false;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(threads);
    return count == 1;
}

static const char *no_call_of(const struct adoption *a) {
    for (int i = 0; i < a->entries; ++i)
        if (nm_needs(program.function, a->entry[i].symbol) && a->entry[i].leads == 0)
            return nm_symbol_name(a->entry[i].symbol);
    return NULL;
}

static bool refuse(struct adoption *a, const char *why, const char *what) {
    snprintf(a->why, sizeof a->why, why, what);
    return false;
}

static bool fits(struct adoption *a) {
#ifndef __x86_64__
    return refuse(a, "%s",
                  "it is linked into the program, where the shim reaches it on x86-64 only");
#endif
    if (!nm_elf_has_files(&a->elf))
        return refuse(a, "%s", "its files were compiled as one (LTO), and calls were compiled in");
    const char *lacking = nm_lacks(program.function);
    return lacking == NULL || refuse(a, "the shim could not find %s in it", lacking);
}

static bool is_untouched(struct adoption *a) {
    for (int i = 0; i < a->entries; ++i)
        if (!as_in_file(&a->elf, a->fd, a->loaded.bias, &a->entry[i]))
            return refuse(a, "%s in memory is not what is in its file",
                          nm_symbol_name(a->entry[i].symbol));
    return is_alone() ||
           refuse(a, "%s",
                  "another preloaded library had started threads before the program began");
}

static bool find_calls(struct adoption *a, struct nm_leads *leads) {
    if (!nm_leads_find(leads, &a->elf, a->loaded.bias, a->entry, a->entries))
        return refuse(a, "%s", "memory ran out while its code was looked through");
    if (leads->doubt[0] != '\0') return refuse(a, "%s", leads->doubt);
    const char *without = no_call_of(a);
    return without == NULL || refuse(a, "calls of %s were compiled in when it was built", without);
}

static bool lead_calls(struct adoption *a, const struct nm_leads *leads) {
    const char *failed = nm_patch_leads(leads, &a->elf, a->loaded.bias, a->fd, a->entry, a->instead,
                                        a->entries, &a->remains);
    return failed == NULL || refuse(a, "%s", failed);
}

static bool adopt(struct adoption *a) {
    struct nm_leads leads = {0};
    bool done = fits(a) && is_untouched(a) && find_calls(a, &leads) && lead_calls(a, &leads);
    nm_leads_free(&leads);
    return done;
}

static void say(const struct adoption *a) {
    char named[320], what[400];
    nm_engine_seen();
    nm_named(program_invocation_name, program.function, named, sizeof named);
    snprintf(what, sizeof what, "%s: this engine cannot be mirrored", named);
    nm_note("warn", what, a->why, "use a build with shared libraries (-DBUILD_SHARED_LIBS=ON)");
    nm_status_set(NM_OFF, a->why);
}

static void adopt_or_say(struct adoption *a) {
    size_t bytes[NM_SYMBOLS] = {0};
    bool twice[NM_SYMBOLS] = {0};
    find_functions(a, bytes, twice);
    if (program.function[NM_SYM_ggml_graph_compute] == NULL) return;
    list_entries(a, bytes);
    program.elf = a->elf;
    program.bias = a->loaded.bias;
    bool done = adopt(a);
    program.adopted = done || a->remains;
    if (!done) say(a);
    if (a->remains) nm_config.active = false; /* each seam only passes on */
}

void nm_static_adopt(void) {
    static struct adoption a;
    dl_iterate_phdr(take_first, &a.loaded);
    int fd = a.loaded.count == 0 ? -1 : open_file(&a.loaded, &a.elf);
    if (fd < 0) return;
    a.fd = fd;
    adopt_or_say(&a);
    nm_elf_free(&a.elf);
    close(fd);
}

/* ---- a program that is not started ---- */

static bool may_change(struct adoption *a, const struct nm_leads *leads) {
    const char *forbidden = nm_patch_forbidden(&a->elf, a->fd, leads->lead[0].at - a->loaded.bias);
    return forbidden == NULL || refuse(a, "%s", forbidden);
}

static bool look(struct adoption *a) {
    struct nm_leads leads = {0};
    size_t bytes[NM_SYMBOLS] = {0};
    bool twice[NM_SYMBOLS] = {0};
    find_functions(a, bytes, twice);
    list_entries(a, bytes);
    bool done = fits(a) && find_calls(a, &leads) && may_change(a, &leads);
    nm_leads_free(&leads);
    return done;
}

/* For `check`, in a process of its own: whether the calls inside a program's file could be led to
 * the shim, as far as its file and our own rights tell. 1: yes; 0: no, and why; -1: it cannot be
 * read. */
NM_EXPORT int numamirror_look_inside(const char *path, char *why, size_t bytes);

NM_EXPORT int numamirror_look_inside(const char *path, char *why, size_t bytes) {
    static struct adoption a;
    struct nm_elf_image image = {0};
    int answer = -1, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    if (nm_elf_read(&a.elf, fd)) {
        if (nm_elf_load(&image, &a.elf, fd)) {
            a.loaded.bias = image.bias;
            a.fd = fd;
            answer = look(&a);
            snprintf(why, bytes, "%s", a.why);
            nm_elf_unload(&image);
        }
        nm_elf_free(&a.elf);
    }
    close(fd);
    return answer;
}
