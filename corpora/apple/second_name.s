# Functions whose starts have another symbol: _f an alternative entry, which belongs to the code before, _h a usual symbol.
	.alt_entry _f_too
	.globl _f, _f_too, _h, _h_too
	retq
_f_too:
_f:	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
	popq %rbp
	retq
	.cfi_endproc
_h_too:
_h:	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
	popq %rbp
	retq
	.cfi_endproc
	.subsections_via_symbols
