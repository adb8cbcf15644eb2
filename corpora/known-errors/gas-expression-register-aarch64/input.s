f:
	.cfi_startproc
	nop
	.cfi_escape 0x10, 29, 2, 0x8f, 0
	ret
	.cfi_endproc
