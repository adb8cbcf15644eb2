f:
	.cfi_startproc
	nop
	.cfi_negate_ra_state
	nop
	.cfi_restore 34
	nop
	.cfi_def_cfa_offset 16
	ret
	.cfi_endproc
