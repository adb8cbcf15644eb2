f:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_def_cfa_register 6
	nop
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
