	.text
	.globl f
	.type f, @function
f:
	.cfi_startproc
	nop
	.cfi_same_value 16
	.cfi_endproc
	.size f, . - f
