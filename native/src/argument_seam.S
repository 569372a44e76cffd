/*
 * The argument seams save every argument register in a frame, ask nm_argument_seam(seam, frame,
 * caller) for the real function, and jump there with the arguments as it left them: in the frame
 * or, from the seventh on (ninth on aarch64), where the caller put them on the stack.
 */
#include "argument_seam.h"
#include "symbols.def"

    .set argument_seam_index, 0

#if defined(__x86_64__)
.macro ARGUMENT_SEAM name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    subq $NM_FRAME_BYTES, %rsp
    .cfi_adjust_cfa_offset NM_FRAME_BYTES
    movq %rdi, 0(%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movq %rax, 48(%rsp)
    movups %xmm0, 64(%rsp)
    movups %xmm1, 80(%rsp)
    movups %xmm2, 96(%rsp)
    movups %xmm3, 112(%rsp)
    movups %xmm4, 128(%rsp)
    movups %xmm5, 144(%rsp)
    movups %xmm6, 160(%rsp)
    movups %xmm7, 176(%rsp)
    movl $argument_seam_index, %edi
    movq %rsp, %rsi
    movq NM_FRAME_BYTES(%rsp), %rdx
    call nm_argument_seam@PLT
    movq %rax, %r11
    movq 0(%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq 24(%rsp), %rcx
    movq 32(%rsp), %r8
    movq 40(%rsp), %r9
    movq 48(%rsp), %rax
    movups 64(%rsp), %xmm0
    movups 80(%rsp), %xmm1
    movups 96(%rsp), %xmm2
    movups 112(%rsp), %xmm3
    movups 128(%rsp), %xmm4
    movups 144(%rsp), %xmm5
    movups 160(%rsp), %xmm6
    movups 176(%rsp), %xmm7
    addq $NM_FRAME_BYTES, %rsp
    .cfi_adjust_cfa_offset -NM_FRAME_BYTES
    jmp *%r11
    .cfi_endproc
    .size \name, . - \name
    .set argument_seam_index, argument_seam_index + 1
.endm
#elif defined(__aarch64__)
.macro ARGUMENT_SEAM name
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint #34
    sub sp, sp, #NM_FRAME_BYTES
    .cfi_adjust_cfa_offset NM_FRAME_BYTES
    stp x0, x1, [sp, #0]
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x30, [sp, #64]
    stp q0, q1, [sp, #80]
    stp q2, q3, [sp, #112]
    stp q4, q5, [sp, #144]
    stp q6, q7, [sp, #176]
    mov w0, #argument_seam_index
    mov x1, sp
    mov x2, x30
    bl nm_argument_seam
    mov x16, x0
    ldp x0, x1, [sp, #0]
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x30, [sp, #64]
    ldp q0, q1, [sp, #80]
    ldp q2, q3, [sp, #112]
    ldp q4, q5, [sp, #144]
    ldp q6, q7, [sp, #176]
    add sp, sp, #NM_FRAME_BYTES
    .cfi_adjust_cfa_offset -NM_FRAME_BYTES
    br x16
    .cfi_endproc
    .size \name, . - \name
    .set argument_seam_index, argument_seam_index + 1
.endm
#else
#error "the argument seams need a few lines of assembly for this processor"
#endif

    .text
#define X(name, ...) ARGUMENT_SEAM name ;
NM_ARGUMENT_SEAMS(X)
#undef X

    .section .note.GNU-stack, "", %progbits
