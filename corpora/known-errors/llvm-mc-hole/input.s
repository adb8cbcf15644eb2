_f:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %r12
	pushq %rax
	pushq %rbx
	.cfi_offset %rbx, -40
	.cfi_offset %r12, -24
	callq _g
	popq %rbx
	popq %rax
	popq %r12
	popq %rbp
	retq
	.cfi_endproc
