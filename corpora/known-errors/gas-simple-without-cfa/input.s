f:
	.cfi_startproc simple
	nop
	.cfi_offset 6, -16
	ret
	.cfi_endproc
