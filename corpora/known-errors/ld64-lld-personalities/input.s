	.irp n, 1, 2, 3, 4
	.globl _p\n, _f\n
_p\n:
	retq
_f\n:
	.cfi_startproc
	.cfi_personality 155, _p\n
	pushq %rax
	.cfi_def_cfa_offset 16
	callq _p\n
	popq %rax
	retq
	.cfi_endproc
	.endr
	.subsections_via_symbols
