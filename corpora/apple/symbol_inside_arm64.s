# Functions with a symbol inside and without an FDE: a usual one, and one with an LSDA, which belongs to its start.
	.alt_entry _f_inside
	.alt_entry _k_inside
	.globl _f, _k
_f:	.cfi_startproc
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	.cfi_def_cfa w29, 16
	.cfi_offset w30, -8
	.cfi_offset w29, -16
	bl _g
_f_inside:
	bl _g
	ldp x29, x30, [sp], #16
	ret
	.cfi_endproc
_k:	.cfi_startproc
	.cfi_personality 155, ___gxx_personality_v0
	.cfi_lsda 16, GCC_except_table0
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	.cfi_def_cfa w29, 16
	.cfi_offset w30, -8
	.cfi_offset w29, -16
	bl _g
_k_inside:
	bl _g
	ldp x29, x30, [sp], #16
	ret
	.cfi_endproc
	.section __TEXT,__gcc_except_tab
GCC_except_table0:
	.long 0
	.subsections_via_symbols
