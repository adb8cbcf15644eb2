	.globl _f
_f:
	.cfi_startproc
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	.cfi_def_cfa w29, 16
	.cfi_offset w30, -8
	.cfi_offset w29, -16
	bl _f
	ldp x29, x30, [sp], #16
	ret
	.cfi_endproc
	.globl _g
_g:
	.cfi_startproc
	sub sp, sp, #16
	.cfi_def_cfa_offset 16
	add sp, sp, #16
	ret
	.cfi_endproc
	.subsections_via_symbols
