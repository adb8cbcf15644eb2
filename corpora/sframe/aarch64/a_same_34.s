/* a_same_34: .cfi_same_value of the signature state, which has its initial value */
	.text
f:
	.cfi_startproc
	.skip 4
	.cfi_def_cfa_offset 16
	.cfi_same_value 34
	.skip 4
	.cfi_endproc
