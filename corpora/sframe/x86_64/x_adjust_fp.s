/* x_adjust_fp: adjust_cfa_offset while the CFA is based on FP */
	.text
f:
	.cfi_startproc
	push %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset 6,0
	lea -16(%rsp),%rbp
	.cfi_def_cfa_register 6
	.cfi_adjust_cfa_offset 16
	nop
	.cfi_adjust_cfa_offset -8
	nop
	lea 16(%rbp),%rsp
	.cfi_def_cfa 7,16
	pop %rbp
	.cfi_restore 6
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size f, .-f
