/* a_negate_same_34: .cfi_same_value of the signature state after it was changed */
	.text
f:
	.cfi_startproc
	.skip 4
	.cfi_negate_ra_state
	.skip 4
	.cfi_same_value 34
	.skip 4
	.cfi_def_cfa_offset 16
	.skip 4
	.cfi_endproc
