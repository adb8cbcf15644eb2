# Two functions of equal code and equal LSDAs, with a personality that makes them DWARF mode.
	.irp name, _f, _g
	.globl \name
\name:
	.cfi_startproc
	.cfi_personality 155, _personality
	.cfi_lsda 16, exception\name
	pushq %rax
	.cfi_def_cfa_offset 16
	callq _h
	popq %rax
	retq
	.cfi_endproc
	.endr
	.section __TEXT,__gcc_except_tab
exception_f:
	.long 1
exception_g:
	.long 1
	.subsections_via_symbols
