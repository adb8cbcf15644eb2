_f:
	.cfi_startproc
	stp x29, x30, [sp, #-48]!
	mov x29, sp
	.cfi_def_cfa w29, 48
	.cfi_offset w30, -40
	.cfi_offset w29, -48
	bl _g
	ldp x29, x30, [sp], #48
	ret
	.cfi_endproc
