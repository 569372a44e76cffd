#include "memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels.h"
#include "sys.h"

static const size_t HUGE_PAGE = 2u << 20;

static size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static size_t power_of_two_in(size_t value) {
    size_t power = 1;
    while (power <= value / 2) power *= 2;
    return power;
}

struct nm_memory nm_memory_map(size_t bytes, int node) {
    struct nm_memory memory = {.bytes = round_up(bytes, HUGE_PAGE)};
    char *start = mmap(NULL, memory.bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return memory;
    memory.words = (uint64_t *)round_up((uintptr_t)start, HUGE_PAGE);
    memory.lines = power_of_two_in(memory.bytes / (NM_LINE_WORDS * sizeof(uint64_t)));
    if (node >= 0)
        memory.policy_error = nm_mbind(memory.words, memory.bytes, NM_MPOL_PREFERRED, &node, 1);
    madvise(memory.words, memory.bytes, MADV_HUGEPAGE);
    return memory;
}

void nm_memory_fill(void *context, int member, int members) {
    struct nm_memory *memory = context;
    size_t lines = memory->bytes / (NM_LINE_WORDS * sizeof(uint64_t));
    size_t first = lines / (size_t)members * (size_t)member;
    size_t end = member + 1 == members ? lines : first + lines / (size_t)members;
    for (size_t line = first; line < end; ++line) {
        uint64_t *words = memory->words + line * NM_LINE_WORDS;
        words[0] = nm_next_line(line, memory->lines);
        for (int i = 1; i < NM_LINE_WORDS; ++i) words[i] = line;
    }
}

size_t nm_memory_huge(const struct nm_memory *memory) {
    FILE *file = fopen("/proc/self/smaps", "re");
    if (file == NULL) return 0;
    uintptr_t start = (uintptr_t)memory->words, end = start + memory->bytes;
    char line[512];
    unsigned long from, to, kib;
    size_t huge = 0;
    int inside = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from < end && to > start;
        else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
            huge += kib * 1024;
    }
    fclose(file);
    return huge;
}
