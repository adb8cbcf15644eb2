	.section .text.unlikely,"ax",@progbits
	.globl helper
helper:	.cfi_startproc
	sub $24,%rsp
	.cfi_adjust_cfa_offset 24
	add $24,%rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.section .text.shared,"axG",@progbits,shared,comdat
	.weak shared
shared:	.cfi_startproc
	ret
	.cfi_endproc
