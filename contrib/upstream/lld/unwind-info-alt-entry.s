# REQUIRES: x86
# XFAIL: *

## An alternative entry is a part of the function around it. It must not end the function's unwind information.

# RUN: llvm-mc -filetype=obj -triple=x86_64-apple-macos11 %s -o %t.o
# RUN: ld64.lld -arch x86_64 -platform_version macos 11.0 11.0 -dylib %t.o -o %t
# RUN: llvm-objdump --macho --unwind-info --syms %t | FileCheck %s

# CHECK-DAG:  [[#%x,F:]] g {{.*}} _f
# CHECK-DAG:  [[#%x,G:]] g {{.*}} _g
# CHECK:      [0]: function offset=0x[[#%.8x,F]], encoding[{{[0-9]+}}]=0x01000000
# CHECK-NEXT: [1]: function offset=0x[[#%.8x,G]], encoding[{{[0-9]+}}]=0x00000000

.globl _f, _inside, _g
.alt_entry _inside
_f:
.cfi_startproc
  pushq %rbp
.cfi_def_cfa_offset 16
.cfi_offset %rbp, -16
  movq %rsp, %rbp
.cfi_def_cfa_register %rbp
  callq _g
_inside:
  callq _g
  popq %rbp
  retq
.cfi_endproc
_g:
  retq

.subsections_via_symbols
