/* x_same_ra: .cfi_same_value 16 alone */
	.text
f:
	.cfi_startproc
	.skip 4
	.cfi_def_cfa_offset 16
	.cfi_same_value 16
	.skip 4
	.cfi_endproc
