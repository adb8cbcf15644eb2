# A function with a personality that is a local symbol, as `ld -r` leaves it.
_personality:
	ret
	.globl _f
_f:	.cfi_startproc
	.cfi_personality 155, _personality
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	mov x29, sp
	.cfi_def_cfa w29, 16
	.cfi_offset w30, -8
	.cfi_offset w29, -16
	bl _g
	ldp x29, x30, [sp], #16
	ret
	.cfi_endproc
	.subsections_via_symbols
