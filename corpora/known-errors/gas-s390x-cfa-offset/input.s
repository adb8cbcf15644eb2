f:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset 161
	br %r14
	.cfi_endproc
