	.text
	.globl f
	.type f, @function
f:
	.cfi_startproc
	.byte 0, 0
	.cfi_def_cfa_offset 16
	.byte 0
	.cfi_def_cfa_offset 32
	.byte 0
	.cfi_def_cfa_offset 48
	ret
	.cfi_endproc
	.size f, . - f
