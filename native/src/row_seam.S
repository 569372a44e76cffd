/*
 * The per-expert functions differ between versions in how many arguments they take, so each seam
 * saves every argument register, asks nm_row_seam(seam, op, caller) for the op to hand over and
 * for the real function, restores, replaces the second argument, and jumps.
 */
#include "symbols.def"

    .set row_seam_index, 0

#if defined(__x86_64__)
.macro ROW_SEAM name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    subq $200, %rsp
    .cfi_adjust_cfa_offset 200
    movq %rdi, 0(%rsp)
    movq %rdx, 8(%rsp)
    movq %rcx, 16(%rsp)
    movq %r8, 24(%rsp)
    movq %r9, 32(%rsp)
    movq %rax, 40(%rsp)
    movups %xmm0, 48(%rsp)
    movups %xmm1, 64(%rsp)
    movups %xmm2, 80(%rsp)
    movups %xmm3, 96(%rsp)
    movups %xmm4, 112(%rsp)
    movups %xmm5, 128(%rsp)
    movups %xmm6, 144(%rsp)
    movups %xmm7, 160(%rsp)
    movl $row_seam_index, %edi
    movq 200(%rsp), %rdx
    call nm_row_seam@PLT
    movq %rax, %rsi
    movq %rdx, %r11
    movq 0(%rsp), %rdi
    movq 8(%rsp), %rdx
    movq 16(%rsp), %rcx
    movq 24(%rsp), %r8
    movq 32(%rsp), %r9
    movq 40(%rsp), %rax
    movups 48(%rsp), %xmm0
    movups 64(%rsp), %xmm1
    movups 80(%rsp), %xmm2
    movups 96(%rsp), %xmm3
    movups 112(%rsp), %xmm4
    movups 128(%rsp), %xmm5
    movups 144(%rsp), %xmm6
    movups 160(%rsp), %xmm7
    addq $200, %rsp
    .cfi_adjust_cfa_offset -200
    jmp *%r11
    .cfi_endproc
    .size \name, . - \name
    .set row_seam_index, row_seam_index + 1
.endm
#elif defined(__aarch64__)
.macro ROW_SEAM name
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-224]!
    .cfi_adjust_cfa_offset 224
    mov x29, sp
    stp x0, x2, [sp, #16]
    stp x3, x4, [sp, #32]
    stp x5, x6, [sp, #48]
    stp x7, x8, [sp, #64]
    stp q0, q1, [sp, #80]
    stp q2, q3, [sp, #112]
    stp q4, q5, [sp, #144]
    stp q6, q7, [sp, #176]
    mov w0, #row_seam_index
    mov x2, x30
    bl nm_row_seam
    mov x16, x1
    mov x1, x0
    ldp x0, x2, [sp, #16]
    ldp x3, x4, [sp, #32]
    ldp x5, x6, [sp, #48]
    ldp x7, x8, [sp, #64]
    ldp q0, q1, [sp, #80]
    ldp q2, q3, [sp, #112]
    ldp q4, q5, [sp, #144]
    ldp q6, q7, [sp, #176]
    ldp x29, x30, [sp], #224
    .cfi_adjust_cfa_offset -224
    br x16
    .cfi_endproc
    .size \name, . - \name
    .set row_seam_index, row_seam_index + 1
.endm
#else
#error "the row seams need a few lines of assembly for this processor"
#endif

    .text
#define X(name, need) ROW_SEAM name ;
NM_ROW_SEAMS(X)
#undef X

    .section .note.GNU-stack, "", %progbits
