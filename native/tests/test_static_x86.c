/* Lengths of instructions: one of each encoding, as assemblers print them. Whole programs are
 * compared with a disassembler in tests/engines. */
#include <string.h>

#include "check.h"
#include "static_x86.h"

struct instruction {
    const char *text;
    size_t length;
    const char *bytes;
    size_t opcode;
};

static void lengths_are_those_of_an_assembler(void) {
    static const struct instruction known[] = {
        {"ret", 1, "\xC3", 0},
        {"push %r15", 2, "\x41\x57", 1},
        {"endbr64", 4, "\xF3\x0F\x1E\xFA", 1},
        {"call", 5, "\xE8\x01\x02\x03\x04", 0},
        {"addr32 call", 6, "\x67\xE8\x01\x02\x03\x04", 1},
        {"data16 rex.W call", 8, "\x66\x66\x48\xE8\x01\x02\x03\x04", 3},
        {"je", 6, "\x0F\x84\x01\x02\x03\x04", 0},
        {"call *8(%rax)", 3, "\xFF\x50\x08", 0},
        {"mov 8(%rsp,%rax,4),%ecx", 4, "\x8B\x4C\x84\x08", 0},
        {"lea 0x1234(%rip),%rdi", 7, "\x48\x8D\x3D\x34\x12\x00\x00", 1},
        {"mov 0x1234(,%rcx,8),%rax", 8, "\x48\x8B\x04\xCD\x34\x12\x00\x00", 1},
        {"movabs $imm64,%rax", 10, "\x48\xB8\x01\x02\x03\x04\x05\x06\x07\x08", 1},
        {"mov $imm16,%ax", 4, "\x66\xB8\x01\x02", 1},
        {"movabs addr,%al", 9, "\xA0\x01\x02\x03\x04\x05\x06\x07\x08", 0},
        {"testb $1,(%rax)", 3, "\xF6\x00\x01", 0},
        {"notb (%rax)", 2, "\xF6\x10", 0},
        {"testl $imm32,4(%rax)", 7, "\xF7\x40\x04\x01\x02\x03\x04", 0},
        {"enter", 4, "\xC8\x01\x02\x03", 0},
        {"pshufb %xmm1,%xmm0", 5, "\x66\x0F\x38\x00\xC1", 1},
        {"palignr $4,%xmm1,%xmm0", 6, "\x66\x0F\x3A\x0F\xC1\x04", 1},
        {"vzeroupper", 3, "\xC5\xF8\x77", 0},
        {"vpshufd $1,%ymm0,%ymm1", 5, "\xC5\xFD\x70\xC8\x01", 0},
        {"vfmadd231ps (%rax),%ymm0,%ymm1", 5, "\xC4\xE2\x7D\xB8\x08", 0},
        {"vinserti128 $1,%xmm0,%ymm1,%ymm2", 6, "\xC4\xE3\x75\x38\xD0\x01", 0},
        {"vpaddd 64(%rax),%zmm0,%zmm1", 7, "\x62\xF1\x7D\x48\xFE\x48\x01", 0},
        {"vpternlogd $0xff,%zmm0,%zmm0,%zmm0", 7, "\x62\xF3\x7D\x48\x25\xC0\xFF", 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        size_t opcode = 99;
        unsigned char code[16] = {0};
        memcpy(code, known[i].bytes, known[i].length);
        size_t length = nm_x86_length(code, sizeof code, &opcode);
        if (length != known[i].length || opcode != known[i].opcode)
            fprintf(stderr, "%s: %zu bytes, opcode at %zu\n", known[i].text, length, opcode);
        CHECK(length == known[i].length && opcode == known[i].opcode);
    }
}

static void what_does_not_end_in_time_has_no_length(void) {
    size_t opcode;
    const unsigned char call[] = {0xE8, 1, 2, 3, 4};
    for (size_t bytes = 0; bytes < sizeof call; ++bytes)
        CHECK(nm_x86_length(call, bytes, &opcode) == 0);
    unsigned char prefixes[32];
    memset(prefixes, 0x66, sizeof prefixes);
    CHECK(nm_x86_length(prefixes, sizeof prefixes, &opcode) == 0);
}

static void what_no_compiler_writes_is_not_known(void) {
    static const unsigned char unknown[][4] = {{0x06}, {0x9A}, {0xD5}, {0x0F, 0x24}, {0x0F, 0xA6}};
    size_t opcode;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i)
        CHECK(nm_x86_length(unknown[i], 4, &opcode) == 0);
}

int main(void) {
    RUN(lengths_are_those_of_an_assembler);
    RUN(what_does_not_end_in_time_has_no_length);
    RUN(what_no_compiler_writes_is_not_known);
    return 0;
}
