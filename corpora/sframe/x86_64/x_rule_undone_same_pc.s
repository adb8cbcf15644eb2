	.text
	.globl f
	.type f, @function
f:
	.cfi_startproc
	nop
	.cfi_escape 0x10,16,2,0x77,8
	.cfi_restore 16
	nop
	.cfi_def_cfa_offset 16
	nop
	.cfi_endproc
	.size f, . - f
