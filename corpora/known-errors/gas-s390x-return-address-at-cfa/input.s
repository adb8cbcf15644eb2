f:
	.cfi_startproc
	nop
	.cfi_offset 14, 0
	.cfi_offset 11, -72
	br %r14
	.cfi_endproc
