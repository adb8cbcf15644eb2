# The rows of a function with a frame pointer: those that are written here, and those of the CFI.
#
# RUN: %as %s -o %t.o
# RUN: cfi2sframe dump --symbols %t.o | %filecheck %s
# RUN: cfi2sframe verify %t.o
# RUN: cfi2sframe lookup %t.o .text+0x4 | %filecheck %s --check-prefix=BODY

# CHECK-LABEL: frame: 7 bytes
# CHECK-NEXT:  +0x0: CFA = rsp+8, return address at CFA-8
# CHECK-NEXT:  +0x1: CFA = rsp+16, return address at CFA-8, rbp at CFA-16
# CHECK-NEXT:  +0x4: CFA = rbp+16, return address at CFA-8, rbp at CFA-16
# CHECK-NEXT:  +0x6: CFA = rsp+8, return address at CFA-8
# BODY: CFA = rbp+16

frame:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	nop
	pop %rbp
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
