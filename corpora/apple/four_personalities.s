# Four functions with compact rows, FDEs, and a personality each.
	.irp n, 1, 2, 3, 4
	.globl _f\n
_f\n:	.cfi_startproc
	.cfi_personality 155, _p\n
	pushq %rax
	.cfi_def_cfa_offset 16
	callq _g
	popq %rax
	retq
	.cfi_endproc
	.endr
	.subsections_via_symbols
