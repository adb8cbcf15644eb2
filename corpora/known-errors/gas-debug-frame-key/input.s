	.cfi_sections .debug_frame
f:
	.cfi_startproc
	.cfi_b_key_frame
	nop
	.cfi_negate_ra_state
	ret
	.cfi_endproc
