// The callers of the construct's function. base has a frame by the frame pointer, so that a reader that goes on by the frame pointer where it finds no CFI
// skips outer and base. outer has known values in the registers that its callees save.
  .globl base, base_end, outer, outer_end
#ifdef __aarch64__
base:
  .cfi_startproc
  stp x29, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  mov x29, sp
  bl outer
  ldp x29, x30, [sp], 16
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  ret
  .cfi_endproc
base_end:
  .type base, %function
  .size base, . - base

  nop
outer:
  .cfi_startproc
  stp x29, x30, [sp, -64]!
  .cfi_def_cfa_offset 64
  .cfi_offset 29, -64
  .cfi_offset 30, -56
  stp x19, x20, [sp, 16]
  .cfi_offset 19, -48
  .cfi_offset 20, -40
  stp x21, x22, [sp, 32]
  .cfi_offset 21, -32
  .cfi_offset 22, -24
  str x23, [sp, 48]
  .cfi_offset 23, -16
  mov x9, x0
  mov x19, 0x1919
  mov x20, 0x2020
  mov x21, 0x2121
  mov x22, 0x2222
  mov x23, 0x2323
  adrp x10, truth
  add x10, x10, :lo12:truth
  mov x11, sp
  stp x11, x19, [x10]
  stp x29, x20, [x10, 16]
  stp x21, x22, [x10, 32]
  str x23, [x10, 48]
  blr x9
  nop
  ldp x19, x20, [sp, 16]
  .cfi_restore 19
  .cfi_restore 20
  ldp x21, x22, [sp, 32]
  .cfi_restore 21
  .cfi_restore 22
  ldr x23, [sp, 48]
  .cfi_restore 23
  ldp x29, x30, [sp], 64
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  ret
  .cfi_endproc
outer_end:
  .type outer, %function
  .size outer, . - outer
  nop
#else
base:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register rbp
  call outer
  pop %rbp
  .cfi_def_cfa rsp, 8
  ret
  .cfi_endproc
base_end:
  .type base, @function
  .size base, . - base

  nop
outer:
  .cfi_startproc
  .irp register, rbx, r12, r13, r14, r15
  push %\register
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset \register, 0
  .endr
  mov %rdi, %rax
  lea truth(%rip), %rcx
  mov $0xb0b0, %ebx
  mov $0x1212, %r12d
  mov %rsp, %r13
  lea -128(%rsp), %r14
  mov $0x1515, %r15d
  mov %rsp, (%rcx)
  mov %rbx, 8(%rcx)
  mov %rbp, 16(%rcx)
  mov %r12, 24(%rcx)
  mov %r13, 32(%rcx)
  mov %r14, 40(%rcx)
  mov %r15, 48(%rcx)
  call *%rax
  nop
  .irp register, r15, r14, r13, r12, rbx
  pop %\register
  .cfi_adjust_cfa_offset -8
  .cfi_restore \register
  .endr
  ret
  .cfi_endproc
outer_end:
  .type outer, @function
  .size outer, . - outer
  nop
#endif
  .section .note.GNU-stack, "", @progbits
