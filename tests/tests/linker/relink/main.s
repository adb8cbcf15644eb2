	.text
	.globl _start
_start:	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6,-16
	call helper
	pop %rbp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.section .text.shared,"axG",@progbits,shared,comdat
	.weak shared
shared:	.cfi_startproc
	ret
	.cfi_endproc
