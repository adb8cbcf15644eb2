f:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset -3
	ret
	.cfi_endproc
