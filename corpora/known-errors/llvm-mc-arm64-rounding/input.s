odd:
	.cfi_startproc
	sub sp, sp, #24
	.cfi_def_cfa_offset 24
	nop
	add sp, sp, #24
	ret
	.cfi_endproc
negative:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset -32
	nop
	ret
	.cfi_endproc
