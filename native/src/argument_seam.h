/* The frame in which argument_seam.S saves a call's arguments; included by assembly too. */
#ifndef NM_ARGUMENT_SEAM_H
#define NM_ARGUMENT_SEAM_H

#if defined(__x86_64__)
#define NM_REGISTER_ARGUMENTS 6
#define NM_FRAME_BYTES 200     /* keeps the stack aligned to 16 behind a return address */
#define NM_STACK_ARGUMENTS 208 /* behind the frame and the return address */
#elif defined(__aarch64__)
#define NM_REGISTER_ARGUMENTS 8
#define NM_FRAME_BYTES 208
#define NM_STACK_ARGUMENTS 208
#endif

#ifndef __ASSEMBLER__
#include <stdint.h>

/* The call's argument number `n`, from 1: integers and pointers only. */
static inline uintptr_t *nm_argument(uintptr_t *frame, int n) {
    return n <= NM_REGISTER_ARGUMENTS ? &frame[n - 1]
                                      : (uintptr_t *)((char *)frame + NM_STACK_ARGUMENTS) +
                                            (n - NM_REGISTER_ARGUMENTS - 1);
}
#endif

#endif
