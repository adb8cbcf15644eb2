f:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	.cfi_offset 7, -16
	ret
	.cfi_endproc
