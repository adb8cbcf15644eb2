# The callers of the construct's function. base has a frame by rbp, so that a reader that goes on by rbp where it finds no CFI
# skips outer and base. outer has known values in the registers that its callees save.
  .globl base, base_end, outer, outer_end
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
  .section .note.GNU-stack, "", @progbits
