#include "static_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "static_files.h"
#include "static_x86.h"

enum { DISTANCE = 4, LONGEST_TABLE = 1 << 20 };

struct search {
    struct nm_leads *leads;
    const struct nm_elf *elf;
    uintptr_t bias;
    struct nm_entry *entries;
    int entry_count;
    struct nm_files files;
};

static int entry_at(const struct search *s, uintptr_t address) {
    int low = 0, high = s->entry_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (s->entries[middle].start == address) return middle;
        if (s->entries[middle].start < address)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static bool add(struct nm_leads *leads, struct nm_lead lead) {
    if (leads->count == leads->room) {
        size_t room = leads->room == 0 ? 256 : 2 * leads->room;
        struct nm_lead *larger = realloc(leads->lead, room * sizeof *larger);
        if (larger == NULL) return false;
        leads->lead = larger;
        leads->room = room;
    }
    leads->lead[leads->count++] = lead;
    return true;
}

/* ---- what looks like a call ---- */

/* The opcode's bytes before a distance: call, jmp, or a jump on a condition. 0: none of them. */
static size_t opcode_bytes(const unsigned char *code) {
    if (code[0] == 0xE8 || code[0] == 0xE9) return 1;
    return code[0] == 0x0F && (code[1] & 0xF0) == 0x80 ? 2 : 0;
}

/* A jump of a function to its own start is a loop, or calls what was already redirected. */
static bool is_own(const struct nm_entry *entry, uintptr_t address) {
    return address - entry->start < entry->bytes;
}

static bool scan_code(struct search *s, const Elf64_Phdr *segment) {
    uintptr_t start = s->bias + segment->p_vaddr;
    const unsigned char *code = (const unsigned char *)start;
    for (size_t i = 0; i + 2 + DISTANCE <= segment->p_filesz; ++i) {
        size_t opcode = opcode_bytes(code + i);
        if (opcode == 0) continue;
        int32_t distance;
        memcpy(&distance, code + i + opcode, sizeof distance);
        uintptr_t at = start + i + opcode;
        int entry = entry_at(s, at + DISTANCE + (uintptr_t)(intptr_t)distance);
        if (entry < 0 || s->entries[entry].by_pointer || is_own(&s->entries[entry], at)) continue;
        if (!add(s->leads, (struct nm_lead){.at = at, .entry = entry})) return false;
    }
    return true;
}

/* ---- whether it is one ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t left = ((const struct nm_lead *)a)->at, right = ((const struct nm_lead *)b)->at;
    return left < right ? -1 : left > right;
}

/* The first lead at or behind the address. */
static size_t first_lead(const struct nm_leads *leads, uintptr_t address) {
    size_t low = 0, high = leads->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (leads->lead[middle].at < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool fits_any_function(const struct search *s, const Elf64_Sym *caller, int entry) {
    const struct nm_entry *called = &s->entries[entry];
    return called->calls_unknown ||
           !nm_files_may_agree(&s->files, caller->st_value, called->start - s->bias);
}

/* Walks a function's instructions as far as its last lead. */
static void judge_within(struct search *s, const Elf64_Sym *function, size_t first, size_t end) {
    const unsigned char *code = (const unsigned char *)(s->bias + function->st_value);
    struct nm_lead *lead = s->leads->lead + first, *last = s->leads->lead + end;
    for (size_t i = 0; lead < last;) {
        size_t opcode, length = nm_x86_length(code + i, function->st_size - i, &opcode);
        if (length == 0) {
            snprintf(s->leads->doubt, sizeof s->leads->doubt,
                     "%.120s holds an instruction that the shim does not know",
                     nm_elf_name(s->elf, function));
            return;
        }
        uintptr_t next = (uintptr_t)code + i + length;
        size_t branch = opcode_bytes(code + i + opcode);
        for (; lead < last && lead->at < next; ++lead) {
            lead->judged = true;
            lead->is_call = branch > 0 && opcode + branch + DISTANCE == length &&
                            lead->at + DISTANCE == next &&
                            fits_any_function(s, function, lead->entry);
        }
        i += length;
    }
}

static void judge(struct search *s) {
    struct nm_leads *leads = s->leads;
    for (size_t i = 0; i < s->elf->symbol_count && leads->doubt[0] == '\0'; ++i) {
        const Elf64_Sym *function = &s->elf->symbols[i];
        if (!nm_elf_is_function(s->elf, function)) continue;
        uintptr_t start = s->bias + function->st_value;
        size_t first = first_lead(leads, start);
        size_t end = first_lead(leads, start + function->st_size);
        while (first < end && leads->lead[first].judged) ++first;
        if (first < end) judge_within(s, function, first, end);
    }
    for (size_t i = 0; i < leads->count && leads->doubt[0] == '\0'; ++i)
        if (!leads->lead[i].judged)
            snprintf(leads->doubt, sizeof leads->doubt,
                     "some of its functions have no name any more (strip -x)");
}

static void keep_calls(struct nm_leads *leads) {
    size_t kept = 0;
    for (size_t i = 0; i < leads->count; ++i)
        if (leads->lead[i].is_call) leads->lead[kept++] = leads->lead[i];
    leads->count = kept;
}

/* ---- tables of pointers ---- */

/* Eight bytes that equal an address are a pointer when the object holds another one: an engine's
 * table of kernels, never a number. */
static bool scan_object(struct search *s, const Elf64_Sym *object) {
    enum { FEWEST = 2 };
    size_t before = s->leads->count;
    uintptr_t start = (s->bias + object->st_value + 7) & ~(uintptr_t)7;
    uintptr_t end = s->bias + object->st_value + object->st_size;
    for (uintptr_t at = start; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
        int entry = entry_at(s, *(const uintptr_t *)at);
        if (entry < 0 || !s->entries[entry].by_pointer) continue;
        struct nm_lead pointer = {.at = at, .entry = entry, .is_pointer = true};
        if (!add(s->leads, pointer)) return false;
    }
    if (s->leads->count - before < FEWEST) s->leads->count = before;
    return true;
}

static bool scan_objects(struct search *s) {
    for (size_t i = 0; i < s->elf->symbol_count; ++i) {
        const Elf64_Sym *object = &s->elf->symbols[i];
        if (object->st_size > LONGEST_TABLE || !nm_elf_is_object(s->elf, object)) continue;
        if (!scan_object(s, object)) return false;
    }
    return true;
}

static bool find_calls(struct search *s) {
    for (unsigned i = 0; i < s->elf->header.e_phnum; ++i) {
        const Elf64_Phdr *segment = &s->elf->segment[i];
        bool is_code =
            segment->p_type == PT_LOAD && (segment->p_flags & PF_X) && (segment->p_flags & PF_R);
        if (is_code && !scan_code(s, segment)) return false;
    }
    if (s->leads->count == 0) return true; /* no list, which qsort must not be given */
    qsort(s->leads->lead, s->leads->count, sizeof *s->leads->lead, by_address);
    judge(s);
    keep_calls(s->leads);
    return true;
}

bool nm_leads_find(struct nm_leads *leads, const struct nm_elf *elf, uintptr_t bias,
                   struct nm_entry *entries, int entry_count) {
    struct search search = {leads, elf, bias, entries, entry_count, {0}};
    *leads = (struct nm_leads){0};
    for (int i = 0; i < entry_count; ++i)
        entries[i].calls_unknown =
            nm_calls_unknown((const unsigned char *)entries[i].start, entries[i].bytes);
    bool found = nm_files_read(&search.files, elf) && find_calls(&search) && scan_objects(&search);
    for (size_t i = 0; i < leads->count; ++i) ++entries[leads->lead[i].entry].leads;
    nm_files_free(&search.files);
    return found;
}

void nm_leads_free(struct nm_leads *leads) {
    free(leads->lead);
    *leads = (struct nm_leads){0};
}
