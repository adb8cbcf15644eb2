f:
	.cfi_startproc
	nop
	.cfi_offset 16, -15072
	ret
	.cfi_endproc
