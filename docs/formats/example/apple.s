# Functions for a Mach-O image: two shapes that alternate, one with a personality, one whose stack pointer is aligned.
        .section __TEXT,__text,regular,pure_instructions

        .macro  framed name
        .globl  \name
\name:
        .cfi_startproc
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %r14
        pushq   %rbx
        .cfi_offset %rbx, -32
        .cfi_offset %r14, -24
        callq   _next
        popq    %rbx
        popq    %r14
        popq    %rbp
        retq
        .cfi_endproc
        .endm

        .macro  frameless name
        .globl  \name
\name:
        .cfi_startproc
        pushq   %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
        callq   _next
        popq    %rbx
        retq
        .cfi_endproc
        .endm

        framed    _a
        frameless _b
        framed    _c
        frameless _d
        framed    _e
        frameless _f

        .globl  _guarded
_guarded:
        .cfi_startproc
        .cfi_personality 155, ___gxx_personality_v0
        .cfi_lsda 16, Lexception
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        callq   _next
        popq    %rbp
        retq
        .cfi_endproc

        .globl  _aligned
_aligned:
        .cfi_startproc
        leaq    8(%rsp), %r10
        .cfi_def_cfa %r10, 0
        subq    $64, %rsp
        andq    $-64, %rsp
        movaps  %xmm0, (%rsp)
        leaq    -8(%r10), %rsp
        .cfi_def_cfa %rsp, 8
        retq
        .cfi_endproc

        .globl  _next
_next:
        .cfi_startproc
        retq
        .cfi_endproc

        .section __TEXT,__gcc_except_tab
Lexception:
GCC_except_table0:
        .byte   255, 255, 1, 0
        .subsections_via_symbols
