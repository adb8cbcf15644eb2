f:
	.cfi_startproc
	nop
	.cfi_register 16, 11
	nop
	.cfi_restore 16
	nop
	.cfi_def_cfa_offset 16
	ret
	.cfi_endproc
