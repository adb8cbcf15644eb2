	.globl f
f:	call f
	.section .text.e, "ax"
	.cfi_startproc			# of no code
	.cfi_endproc
	.section .text.g, "ax"		# starts where the empty function does
	.globl g
g:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	call f
	pop %rax
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
