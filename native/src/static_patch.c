#include "static_patch.h"

#include <string.h>
#include <sys/mman.h>

#include "page_size.h"
#include "sys.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* jmp *0(%rip), the address behind it, and two int3. */
enum { THUNK = 16, JUMP = 6 };
static const unsigned char jump_to_next_word[JUMP] = {0xFF, 0x25, 0, 0, 0, 0};

#define REACH ((uintptr_t)1 << 31)
#define STEP ((uintptr_t)16 << 20)

struct patch {
    const struct nm_leads *leads;
    const struct nm_elf *elf;
    uintptr_t bias, page;
    int fd;
    const struct nm_entry *entries;
    void *const *instead;
    char *thunks;
    bool undo; /* write what stood there before */
};

/* ---- thunks: what a distance of 32 bits reaches ---- */

static void *map_at(uintptr_t address, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void *got = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (got == MAP_FAILED || (uintptr_t)got == address) return got == MAP_FAILED ? NULL : got;
    munmap(got, bytes); /* kernels before 4.17 take the address as a hint */
    return NULL;
}

/* Below the program where that goes: its heap grows above it. */
static void *map_near(uintptr_t low, uintptr_t high, size_t bytes) {
    const uintptr_t lowest = 1 << 20;
    void *got = NULL;
    for (uintptr_t at = low - bytes; got == NULL && at > lowest && at < low && high - at < REACH;
         at -= STEP)
        got = map_at(at, bytes);
    for (uintptr_t at = low + REACH - 2 * bytes; got == NULL && at > high; at -= STEP)
        got = map_at(at, bytes);
    return got;
}

static void range_of(const struct patch *p, uintptr_t *low, uintptr_t *high) {
    *low = UINTPTR_MAX;
    *high = 0;
    for (unsigned i = 0; i < p->elf->header.e_phnum; ++i) {
        const Elf64_Phdr *segment = &p->elf->segment[i];
        if (segment->p_type != PT_LOAD) continue;
        uintptr_t start = p->bias + segment->p_vaddr, end = start + segment->p_memsz;
        if (start < *low) *low = start & ~(p->page - 1);
        if (end > *high) *high = (end | (p->page - 1)) + 1;
    }
}

static const char no_new_code[] = "the system allows no new code (mprotect with PROT_EXEC)";

static const char *make_thunks(struct patch *p, int count) {
    uintptr_t low, high;
    size_t bytes = ((size_t)count * THUNK + p->page - 1) & ~(p->page - 1);
    range_of(p, &low, &high);
    p->thunks = map_near(low, high, bytes);
    if (p->thunks == NULL) return "no addresses within 2 GiB of its code are free";
    memset(p->thunks, 0xCC, bytes);
    for (int i = 0; i < count; ++i) {
        memcpy(p->thunks + i * THUNK, jump_to_next_word, JUMP);
        memcpy(p->thunks + i * THUNK + JUMP, &p->instead[i], sizeof p->instead[i]);
    }
    nm_name_mapping(p->thunks, bytes, "numamirror calls");
    if (nm_mprotect(p->thunks, bytes, PROT_READ | PROT_EXEC) == 0) return NULL;
    munmap(p->thunks, bytes);
    p->thunks = NULL;
    return no_new_code;
}

/* ---- what stands where ---- */

/* The rights that a page of the program has once it is loaded. */
static int rights_of(const struct patch *p, const Elf64_Phdr *segment, uintptr_t page) {
    int rights = PROT_READ | (segment->p_flags & PF_X ? PROT_EXEC : 0) |
                 (segment->p_flags & PF_W ? PROT_WRITE : 0);
    for (unsigned i = 0; i < p->elf->header.e_phnum; ++i) {
        const Elf64_Phdr *relro = &p->elf->segment[i];
        if (relro->p_type != PT_GNU_RELRO) continue;
        uintptr_t start = (p->bias + relro->p_vaddr) & ~(p->page - 1);
        uintptr_t end = (p->bias + relro->p_vaddr + relro->p_memsz) & ~(p->page - 1);
        if (page >= start && page < end) rights &= ~PROT_WRITE;
    }
    return rights;
}

/* Code of the file can be written and made executable again: SELinux asks for execmod. Tried on a
 * page of its own, before anything is touched. */
static bool may_change_code(const struct patch *p, const Elf64_Phdr *segment) {
    off_t offset = (off_t)(segment->p_offset & ~(p->page - 1));
    volatile char *trial = mmap(NULL, p->page, PROT_READ | PROT_EXEC, MAP_PRIVATE, p->fd, offset);
    if (trial == MAP_FAILED) return false;
    bool may = nm_mprotect((void *)trial, p->page, PROT_READ | PROT_WRITE) == 0;
    if (may) {
        *trial = *trial;
        may = nm_mprotect((void *)trial, p->page, PROT_READ | PROT_EXEC) == 0;
    }
    munmap((void *)trial, p->page);
    return may;
}

/* ---- writing ---- */

static size_t width(const struct nm_lead *lead) {
    return lead->is_pointer ? sizeof(uintptr_t) : sizeof(int32_t);
}

/* Plain stores: a call might lead into the code that is being changed. */
struct unaligned {
    int32_t distance;
} __attribute__((packed));

static void write_lead(const struct patch *p, const struct nm_lead *lead) {
    uintptr_t original = p->entries[lead->entry].start;
    if (lead->is_pointer) {
        *(void **)lead->at = p->undo ? (void *)original : p->instead[lead->entry];
        return;
    }
    uintptr_t thunk = (uintptr_t)p->thunks + (uintptr_t)lead->entry * THUNK;
    uintptr_t behind = lead->at + sizeof(int32_t), to = p->undo ? original : thunk;
    ((struct unaligned *)lead->at)->distance = (int32_t)(intptr_t)(to - behind);
}

/* Leads that follow one another on the same or on neighbouring pages of one segment. */
struct run {
    size_t first, end;
    uintptr_t start;
    size_t bytes;
    const Elf64_Phdr *segment;
    int rights;
};

static bool begins_run(const struct patch *p, size_t i, struct run *run) {
    const struct nm_lead *lead = &p->leads->lead[i];
    run->segment = nm_elf_segment_of(p->elf, lead->at - p->bias, width(lead));
    if (run->segment == NULL) return false;
    run->first = run->end = i;
    run->start = lead->at & ~(p->page - 1);
    run->bytes = 0;
    run->rights = rights_of(p, run->segment, run->start);
    return true;
}

static bool belongs_to_run(const struct patch *p, const struct run *run, size_t i) {
    if (i >= p->leads->count) return false;
    const struct nm_lead *lead = &p->leads->lead[i];
    uintptr_t first = lead->at & ~(p->page - 1);
    return lead->at >= run->start && first <= run->start + run->bytes &&
           nm_elf_segment_of(p->elf, lead->at - p->bias, width(lead)) == run->segment &&
           rights_of(p, run->segment, first) == run->rights;
}

static bool next_run(const struct patch *p, size_t from, struct run *run) {
    if (from >= p->leads->count || !begins_run(p, from, run)) return false;
    while (belongs_to_run(p, run, run->end)) {
        const struct nm_lead *lead = &p->leads->lead[run->end++];
        run->bytes = ((lead->at + width(lead) - 1) | (p->page - 1)) + 1 - run->start;
    }
    return true;
}

/* Nothing was ever written to the program's code: its file has it. */
static void restore_code(const struct patch *p, const struct run *run) {
    off_t offset = (off_t)(run->segment->p_offset + (run->start - p->bias) - run->segment->p_vaddr);
    mmap((void *)run->start, run->bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, p->fd,
         offset);
}

static void write_leads(const struct patch *p, const struct run *run) {
    for (size_t i = run->first; i < run->end; ++i) write_lead(p, &p->leads->lead[i]);
}

/* False when it could not, and the run is as it was. */
static bool write_run(const struct patch *p, const struct run *run) {
    bool writable = (run->rights & PROT_WRITE) != 0;
    if (!writable && nm_mprotect((void *)run->start, run->bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    write_leads(p, run);
    if (writable || nm_mprotect((void *)run->start, run->bytes, run->rights) == 0) return true;
    if (run->rights & PROT_EXEC) {
        restore_code(p, run);
    } else { /* it can still be written */
        struct patch back = *p;
        back.undo = true;
        write_leads(&back, run);
    }
    return false;
}

static bool write_until(const struct patch *p, size_t *end) {
    struct run run;
    for (size_t i = 0; i < *end; i = run.end) {
        if (next_run(p, i, &run) && write_run(p, &run)) continue;
        *end = i;
        return false;
    }
    return true;
}

static const char no_change[] = "the system allows no change of its code (mprotect)";

static const char *write_all(struct patch *p, bool *remains) {
    size_t end = p->leads->count;
    if (write_until(p, &end)) return NULL;
    p->undo = true;
    *remains = !write_until(p, &end);
    return no_change;
}

const char *nm_patch_leads(const struct nm_leads *leads, const struct nm_elf *elf, uintptr_t bias,
                           int fd, const struct nm_entry *entries, void *const *instead,
                           int entry_count, bool *remains) {
    struct patch patch = {leads, elf, bias, nm_page_bytes(), fd, entries, instead, NULL, false};
    *remains = false;
    const char *failed = make_thunks(&patch, entry_count);
    if (failed != NULL) return failed;
    const struct nm_lead *any = &leads->lead[0];
    const Elf64_Phdr *code = nm_elf_segment_of(elf, any->at - bias, width(any));
    if (code == NULL || !may_change_code(&patch, code)) return no_change;
    return write_all(&patch, remains);
}

static bool may_make_code(size_t page) {
    void *trial = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED) return false;
    bool may = nm_mprotect(trial, page, PROT_READ | PROT_EXEC) == 0;
    munmap(trial, page);
    return may;
}

const char *nm_patch_forbidden(const struct nm_elf *elf, int fd, uint64_t address) {
    struct patch patch = {.elf = elf, .page = nm_page_bytes(), .fd = fd};
    const Elf64_Phdr *code = nm_elf_segment_of(elf, address, sizeof(int32_t));
    if (!may_make_code(patch.page)) return no_new_code;
    return code != NULL && may_change_code(&patch, code) ? NULL : no_change;
}
