# The tables of two assemblers mean the same at every PC. Their bytes may differ: versions of the format, repeated rows.
#
# REQUIRES: other-as
# RUN: %as %s -o %t.o
# RUN: %other_as %s -o %t.other.o
# RUN: cfi2sframe diff %t.o %t.other.o

saves:
	.cfi_startproc
	push %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	sub $16, %rsp
	.cfi_def_cfa_offset 32
	.cfi_remember_state
	add $16, %rsp
	.cfi_def_cfa_offset 16
	pop %rbx
	.cfi_restore %rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_restore_state
	ud2
	.cfi_endproc
