# Three functions for arm64.
        .section __TEXT,__text,regular,pure_instructions

        .globl  _frame
_frame:
        .cfi_startproc
        stp     x20, x19, [sp, #-32]!
        stp     x29, x30, [sp, #16]
        add     x29, sp, #16
        .cfi_def_cfa w29, 16
        .cfi_offset w30, -8
        .cfi_offset w29, -16
        .cfi_offset w19, -24
        .cfi_offset w20, -32
        bl      _leaf
        ldp     x29, x30, [sp, #16]
        ldp     x20, x19, [sp], #32
        ret
        .cfi_endproc

        .globl  _frameless
_frameless:
        .cfi_startproc
        sub     sp, sp, #32
        .cfi_def_cfa_offset 32
        str     x0, [sp, #8]
        add     sp, sp, #32
        ret
        .cfi_endproc

        .globl  _leaf
_leaf:
        .cfi_startproc
        ret
        .cfi_endproc
        .subsections_via_symbols
