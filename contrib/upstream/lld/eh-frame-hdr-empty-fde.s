# REQUIRES: x86
# XFAIL: *

## An FDE of no code starts where another function starts. The search table must have the FDE of that function: with the
## empty FDE, an unwinder finds no rows for the function, and a throw through it ends the program. GNU ld drops empty FDEs.

# RUN: llvm-mc -filetype=obj -triple=x86_64 %s -o %t.o
# RUN: ld.lld -shared --eh-frame-hdr %t.o -o %t.so
# RUN: llvm-readobj --unwind %t.so | FileCheck %s

# CHECK:      entry 0 {
# CHECK-NEXT:   initial_location: [[PC:0x[0-9a-f]+]]
# CHECK-NEXT:   address: [[FDE:0x[0-9a-f]+]]
# CHECK:      [[[FDE]]] FDE
# CHECK-NEXT:   initial_location: [[PC]]
# CHECK-NEXT:   address_range: 0x2

.section .text.empty, "ax"
.cfi_startproc
.cfi_endproc

.section .text.f, "ax"
.globl f
f:
.cfi_startproc
  nop
  ret
.cfi_endproc
