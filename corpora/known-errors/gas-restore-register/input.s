f:
	.cfi_startproc
	.cfi_register 6, 0
	nop
	.cfi_offset 6, -16
	nop
	.cfi_restore 6
	ret
	.cfi_endproc
