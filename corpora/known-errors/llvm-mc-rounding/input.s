odd:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset 12
	callq _g
	retq
	.cfi_endproc
negative:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset -16
	callq _g
	retq
	.cfi_endproc
