# A function with the CFI of a return address that is signed with a PC. llvm-mc 23.1.4 gives it a row in DWARF mode.
	.globl _a
_a:	.cfi_startproc
	hint #39 ; pacm
	hint #27 ; pacibsp
	.cfi_negate_ra_state_with_pc
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	mov x29, sp
	.cfi_def_cfa w29, 16
	.cfi_offset w30, -8
	.cfi_offset w29, -16
	bl _g
	.cfi_def_cfa wsp, 16
	ldp x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore w29
	.cfi_restore w30
	hint #39
	hint #31 ; autibsp
	.cfi_negate_ra_state_with_pc
	ret
	.cfi_endproc
	.subsections_via_symbols
