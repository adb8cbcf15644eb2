	.globl _f
_f:
	.cfi_startproc
	pushq %rax
	.cfi_def_cfa_offset 16
	callq _f
	popq %rax
	retq
	.cfi_endproc
	.subsections_via_symbols
