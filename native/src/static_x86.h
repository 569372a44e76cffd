/* How long an x86-64 instruction is: enough to tell a call from bytes that look like one. */
#ifndef NM_STATIC_X86_H
#define NM_STATIC_X86_H

#include <stddef.h>

/* The length of the instruction that begins at `code`; 0 for one that is not known here or does not
 * end within `bytes`. *opcode: where its opcode stands, behind the prefixes; 0 in a VEX or EVEX
 * instruction, whose opcode byte means something else. Source: Intel's manual, volume 2, appendix
 * A. */
size_t nm_x86_length(const unsigned char *code, size_t bytes, size_t *opcode);

#endif
