f:
	.cfi_startproc
	nop
	.cfi_val_offset 16, -16
	ret
	.cfi_endproc
