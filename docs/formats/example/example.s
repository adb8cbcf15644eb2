# Three functions with the call frame information that a compiler writes for them.
        .text
        .globl  _start, leaf, keeps, framed
_start:
# long leaf(long x) { return x; }
leaf:
        .cfi_startproc
        mov     %rdi, %rax
        ret
        .cfi_endproc

# long keeps(long x) { return x + leaf(x); }
keeps:
        .cfi_startproc
        push    %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
        mov     %rdi, %rbx
        call    leaf
        add     %rbx, %rax
        pop     %rbx
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc

# long framed(long x) { return keeps(x) + 1; } with a frame pointer
framed:
        .cfi_startproc
        push    %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        sub     $32, %rsp
        call    keeps
        inc     %rax
        leave
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
