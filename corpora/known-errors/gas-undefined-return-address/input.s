f:
	.cfi_startproc
	.cfi_undefined 16
	nop
	.cfi_offset 16, -8
	ret
	.cfi_endproc
