/* x_cfa_m3: CFA offset that is negative and no multiple of the data alignment */
	.text
f:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset -3
	ret
	.cfi_endproc
	.size f, .-f
