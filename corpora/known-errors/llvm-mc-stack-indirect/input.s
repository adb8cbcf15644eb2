_f:
	.cfi_startproc
	movl $5000, %eax
	subq %rax, %rsp
	.cfi_def_cfa_offset 5008
	callq _g
	addq $5000, %rsp
	retq
	.cfi_endproc
