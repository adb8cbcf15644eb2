f:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset 2147483648
	ret
	.cfi_endproc
