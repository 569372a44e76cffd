#include "kernels.h"

#include "memory.h"

/* As wide as a cache line: the compiler splits it into what the machine has. */
typedef uint64_t line_of_words __attribute__((vector_size(64)));

uint64_t nm_stream(const uint64_t *words, size_t bytes) {
    const line_of_words *line = (const line_of_words *)words;
    line_of_words a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i + 4 <= bytes / sizeof *line; i += 4) {
        a ^= line[i];
        b ^= line[i + 1];
        c ^= line[i + 2];
        d ^= line[i + 3];
    }
    a ^= b ^ c ^ d;
    uint64_t sum = 0;
    for (int i = 0; i < NM_LINE_WORDS; ++i) sum ^= a[i];
    return sum;
}

uint64_t nm_chase(const uint64_t *words, uint64_t line, size_t steps) {
    for (size_t i = 0; i < steps; ++i) line = words[line * NM_LINE_WORDS];
    return line;
}
