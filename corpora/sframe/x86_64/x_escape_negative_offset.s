	.text
	.globl f
	.type f, @function
f:
	.cfi_startproc
	nop
	.cfi_escape 0x2f,3,2
	nop
	.cfi_endproc
	.size f, . - f
