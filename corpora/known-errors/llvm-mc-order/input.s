_f:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rbx
	pushq %r12
	.cfi_offset %rbx, -24
	.cfi_offset %r12, -32
	callq _g
	popq %r12
	popq %rbx
	popq %rbp
	retq
	.cfi_endproc
