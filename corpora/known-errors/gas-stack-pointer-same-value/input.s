f:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	.cfi_same_value 7
	ret
	.cfi_endproc
