f:
	.cfi_startproc
	nop
	.cfi_escape 0x10, 16, 2, 0x77, 0x10
	ret
	.cfi_endproc
