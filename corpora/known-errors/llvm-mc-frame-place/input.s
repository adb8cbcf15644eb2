_f:
	.cfi_startproc
	pushq %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	pushq %rbp
	.cfi_def_cfa_offset 24
	.cfi_offset %rbp, -24
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
	popq %rbp
	popq %rbx
	retq
	.cfi_endproc
