/* x_escape_sum_offset: the same where the expression is the sum of a register and an offset */
	.text
f:
	.cfi_startproc
	nop
	.cfi_escape 0xf,0x2,0x77,0x8
	nop
	.cfi_def_cfa_offset 32
	nop
	.cfi_def_cfa 7,8
	ret
	.cfi_endproc
	.size f, .-f
