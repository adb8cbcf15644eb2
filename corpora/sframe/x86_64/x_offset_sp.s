/* x_offset_sp: .cfi_offset of the stack pointer, which rows take for the CFA */
	.text
f:
	.cfi_startproc
	.skip 4
	.cfi_def_cfa_offset 16
	.cfi_offset 7, -16
	.skip 4
	.cfi_endproc
