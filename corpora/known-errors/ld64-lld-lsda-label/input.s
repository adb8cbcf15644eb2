	.irp name, _f, _g
	.globl \name
\name:
	.cfi_startproc
	.cfi_personality 155, ___gxx_personality_v0
	.cfi_lsda 16, Lexception\name
	pushq %rax
	.cfi_def_cfa_offset 16
	callq _h
	popq %rax
	retq
	.cfi_endproc
	.endr
	.section __TEXT,__gcc_except_tab
Lexception_f:
	.long 1
Lexception_g:
	.long 2
	.subsections_via_symbols
