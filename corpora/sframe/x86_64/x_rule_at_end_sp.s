	.text
	.globl f
	.type f, @function
f:
	.cfi_startproc
	nop
	.cfi_offset 7,-16
	.cfi_endproc
	.size f, . - f
