# A large stack by a call that probes it. llvm-mc expects a `sub` with the size.
	.globl _f
_f:	.cfi_startproc
	pushq %rbx
	.cfi_def_cfa_offset 16
	movl $5008, %eax
	callq ___chkstk_darwin
	subq %rax, %rsp
	.cfi_def_cfa_offset 5024
	.cfi_offset %rbx, -16
	callq _g
	addq $5008, %rsp
	popq %rbx
	retq
	.cfi_endproc
	.subsections_via_symbols
