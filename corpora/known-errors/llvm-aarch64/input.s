f:
	.cfi_startproc
	sub sp, sp, #16
	.cfi_def_cfa_offset 16
	add sp, sp, #16
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
