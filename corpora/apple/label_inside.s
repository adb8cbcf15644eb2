# A function with an assembler label inside that is in the symbol table.
	.globl _f
_f:	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
l_inside:
	callq _g
	popq %rbp
	retq
	.cfi_endproc
	.subsections_via_symbols
