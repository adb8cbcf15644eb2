# Functions with a symbol inside: _f has a compact row, _m a row in DWARF mode, _h has its symbol before its body, and _k
# an LSDA.
	.alt_entry _f_inside
	.alt_entry _m_inside
	.alt_entry _h_inside
	.alt_entry _k_inside
	.globl _f, _m, _h, _k
_f:	.cfi_startproc
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
_m:	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
_m_inside:
	callq _g
	popq %rbp
	.cfi_def_cfa %rsp, 8
	retq
	.cfi_endproc
_h:	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
_h_inside:
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
	popq %rbp
	.cfi_def_cfa %rsp, 8
	retq
	.cfi_endproc
_k:	.cfi_startproc
	.cfi_personality 155, _my_personality
	.cfi_lsda 16, _lsda
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	callq _g
_k_inside:
	callq _g
	popq %rbp
	retq
	.cfi_endproc
	.section __TEXT,__gcc_except_tab
_lsda:	.long 0
	.subsections_via_symbols
