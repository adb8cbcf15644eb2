_f:
	.cfi_startproc
	pushq %rax
	.cfi_def_cfa_offset 16
	callq _g
	popq %rax
	.cfi_def_cfa_offset 8
	retq
	.cfi_endproc
