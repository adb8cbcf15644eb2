f:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	.cfi_remember_state
	pop %rax
	.cfi_def_cfa_offset 8
	nop
	.cfi_restore_state
	nop
	ret
	.cfi_endproc
