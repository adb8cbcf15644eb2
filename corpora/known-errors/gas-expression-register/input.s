f:
	.cfi_startproc
	nop
	.cfi_escape 0x10, 6, 2, 0x77, 0x10
	ret
	.cfi_endproc
