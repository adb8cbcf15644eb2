	.globl _f, _f_inside, _g
	.alt_entry _f_inside
_f:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
_f_inside:
	callq _g
	popq %rbp
	retq
	.cfi_endproc
_g:
	retq
	.subsections_via_symbols
