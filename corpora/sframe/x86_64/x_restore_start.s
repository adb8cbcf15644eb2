/* x_restore_start: .cfi_restore before the first instruction, which goes to the CIE */
	.text
f:
	.cfi_startproc
	.cfi_restore 6
	.skip 4
	.cfi_def_cfa_offset 16
	.skip 4
	.cfi_endproc
