	.text
	.globl f
	.type f, @function
f:
	.cfi_startproc
	nop
	.cfi_escape 0x1d,1,0,0,0,0,0,0,0
	nop
	.cfi_endproc
	.size f, . - f
