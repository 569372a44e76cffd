#include "static_x86.h"

#include <stdbool.h>

/* What follows an opcode. WORD: two bytes; FULL: four, two with the operand prefix; LONG: eight
 * with REX.W; BRANCH: four always; ADDRESS: as wide as addresses are. */
enum {
    NONE = 0,
    MODRM = 1,
    BYTE = 2,
    WORD = 4,
    FULL = 8,
    LONG = 16,
    BRANCH = 32,
    ADDRESS = 64,
    UNARY = 128, /* an operand only with /0 and /1 */
    BAD = 256
};

struct decoding {
    const unsigned char *code;
    size_t at, bytes;
    bool operand16, address32, wide; /* prefixes 66 and 67, REX.W */
};

static unsigned in_block_of_eight(unsigned opcode) {
    static const unsigned short kinds[8] = {MODRM, MODRM, MODRM, MODRM, BYTE, FULL, BAD, BAD};
    return kinds[opcode & 7];
}

static unsigned one_byte(unsigned opcode) {
    if (opcode < 0x40) return in_block_of_eight(opcode);
    if (opcode >= 0x50 && opcode < 0x60) return NONE;
    if (opcode >= 0x70 && opcode < 0x80) return BYTE;
    if (opcode >= 0x84 && opcode < 0x90) return MODRM;
    if (opcode >= 0xA0 && opcode < 0xA4) return ADDRESS;
    if (opcode >= 0xB0 && opcode < 0xB8) return BYTE;
    if (opcode >= 0xB8 && opcode < 0xC0) return LONG;
    if (opcode >= 0xD0 && opcode < 0xD4) return MODRM;
    if (opcode >= 0xD8 && opcode < 0xE0) return MODRM;
    if (opcode >= 0xE0 && opcode < 0xE8) return BYTE;
    switch (opcode) {
        case 0x60:
        case 0x61:
        case 0x82:
        case 0x9A:
        case 0xCE:
        case 0xD4:
        case 0xD5:
        case 0xD6:
        case 0xEA:
            return BAD;
        case 0x63:
        case 0xFE:
        case 0xFF:
            return MODRM;
        case 0x69:
        case 0x81:
        case 0xC7:
            return MODRM | FULL;
        case 0x6B:
        case 0x80:
        case 0x83:
        case 0xC0:
        case 0xC1:
        case 0xC6:
            return MODRM | BYTE;
        case 0xF6:
            return MODRM | BYTE | UNARY;
        case 0xF7:
            return MODRM | FULL | UNARY;
        case 0x68:
        case 0xA9:
            return FULL;
        case 0x6A:
        case 0xA8:
        case 0xCD:
        case 0xEB:
            return BYTE;
        case 0xC2:
        case 0xCA:
            return WORD;
        case 0xC8:
            return WORD | BYTE;
        case 0xE8:
        case 0xE9:
            return BRANCH;
        default:
            return NONE;
    }
}

/* Those with an immediate byte, in all three encodings of the map 0F. */
static bool has_byte(unsigned opcode) {
    return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xC2 ||
           (opcode >= 0xC4 && opcode <= 0xC6);
}

static unsigned two_bytes(unsigned opcode) {
    if (opcode >= 0x80 && opcode < 0x90) return BRANCH;
    if (opcode >= 0xC8 && opcode < 0xD0) return NONE;
    if (opcode >= 0x20 && opcode < 0x28) return BAD;
    if (opcode >= 0x30 && opcode < 0x36) return NONE;
    if (has_byte(opcode)) return MODRM | BYTE;
    switch (opcode) {
        case 0x04:
        case 0x0A:
        case 0x0C:
        case 0x36:
        case 0x37:
        case 0x39:
        case 0x3B:
        case 0x3C:
        case 0x3D:
        case 0x3E:
        case 0x3F:
        case 0x7A:
        case 0x7B:
        case 0xA6:
        case 0xA7:
            return BAD;
        case 0x05:
        case 0x06:
        case 0x07:
        case 0x08:
        case 0x09:
        case 0x0B:
        case 0x0E:
        case 0x77:
        case 0xA0:
        case 0xA1:
        case 0xA2:
        case 0xA8:
        case 0xA9:
        case 0xAA:
            return NONE;
        case 0x0F:
        case 0xA4:
        case 0xAC:
        case 0xBA:
            return MODRM | BYTE;
        default:
            return MODRM;
    }
}

/* Of VEX and EVEX: maps 1 to 3 are 0F, 0F 38, 0F 3A; 5 and 6 came with AVX512-FP16. */
static unsigned in_map(unsigned map, unsigned opcode, bool evex) {
    if (map == 1) return opcode == 0x77 ? NONE : has_byte(opcode) ? MODRM | BYTE : MODRM;
    if (map == 2 || (evex && (map == 5 || map == 6))) return MODRM;
    return map == 3 ? MODRM | BYTE : BAD;
}

static unsigned next(struct decoding *d) {
    unsigned value = d->at < d->bytes ? d->code[d->at] : 0;
    ++d->at;
    return value;
}

static unsigned peek(const struct decoding *d) { return d->at < d->bytes ? d->code[d->at] : 0; }

static bool is_prefix(struct decoding *d, unsigned byte) {
    switch (byte) {
        case 0x66:
            return d->operand16 = true;
        case 0x67:
            return d->address32 = true;
        case 0x26:
        case 0x2E:
        case 0x36:
        case 0x3E:
        case 0x64:
        case 0x65:
        case 0xF0:
        case 0xF2:
        case 0xF3:
            return true;
        default:
            return false;
    }
}

static unsigned skip_prefixes(struct decoding *d) {
    for (;;) {
        unsigned byte = next(d);
        bool rex = (byte & 0xF0) == 0x40;
        if (!rex && !is_prefix(d, byte)) return byte;
        d->wide = rex && (byte & 8) != 0; /* counts right before the opcode only */
    }
}

static void skip_operand(struct decoding *d, unsigned modrm) {
    unsigned mode = modrm >> 6, rm = modrm & 7;
    if (mode == 3) return;
    unsigned base = rm == 4 ? next(d) & 7 : rm;
    if (mode == 1)
        d->at += 1;
    else if (mode == 2 || base == 5)
        d->at += 4;
}

static void skip_immediate(struct decoding *d, unsigned kind) {
    if (kind & BYTE) d->at += 1;
    if (kind & WORD) d->at += 2;
    if (kind & FULL) d->at += d->operand16 && !d->wide ? 2 : 4;
    if (kind & LONG) d->at += d->wide ? 8 : d->operand16 ? 2 : 4;
    if (kind & BRANCH) d->at += 4;
    if (kind & ADDRESS) d->at += d->address32 ? 4 : 8;
}

static unsigned kind_of_vex(struct decoding *d, unsigned first) {
    unsigned second = next(d), map = first == 0xC5 ? 1 : second & 0x1F;
    if (first == 0xC4) next(d);
    if (first == 0x62) {
        map = second & 7;
        unsigned third = next(d);
        next(d);
        if ((second & 8) != 0 || (third & 4) == 0) return BAD; /* APX */
    }
    return in_map(map, next(d), first == 0x62);
}

static unsigned kind_of(struct decoding *d, size_t *opcode) {
    unsigned first = skip_prefixes(d);
    *opcode = d->at - 1;
    if (first == 0x62 || first == 0xC4 || first == 0xC5) {
        *opcode = 0;
        return kind_of_vex(d, first);
    }
    if (first == 0x8F && (peek(d) & 0x38) != 0) return BAD; /* XOP */
    if (first != 0x0F) return one_byte(first);
    unsigned second = next(d);
    if (second != 0x38 && second != 0x3A) return two_bytes(second);
    next(d);
    return second == 0x38 ? MODRM : MODRM | BYTE;
}

size_t nm_x86_length(const unsigned char *code, size_t bytes, size_t *opcode) {
    struct decoding d = {.code = code, .bytes = bytes < 15 ? bytes : 15};
    unsigned kind = kind_of(&d, opcode);
    if (kind & BAD) return 0;
    if (kind & MODRM) {
        unsigned modrm = next(&d);
        if ((kind & UNARY) && (modrm & 0x38) > 0x08) kind = MODRM;
        skip_operand(&d, modrm);
    }
    skip_immediate(&d, kind);
    return d.at <= d.bytes ? d.at : 0;
}
