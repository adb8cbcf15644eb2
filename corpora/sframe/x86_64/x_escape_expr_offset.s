/* x_escape_expr_offset: the CFA's offset is changed where an expression gives the CFA */
	.text
f:
	.cfi_startproc
	nop
	.cfi_escape 0xf,0x3,0x76,0x78,0x6
	nop
	.cfi_def_cfa_offset 32
	nop
	.cfi_def_cfa 7,8
	ret
	.cfi_endproc
	.size f, .-f
