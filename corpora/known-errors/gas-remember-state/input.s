f:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	nop
	.cfi_remember_state
	push %rax
	.cfi_def_cfa_offset 24
	nop
	.cfi_remember_state
	push %rax
	.cfi_def_cfa_offset 32
	nop
	.cfi_restore_state	# back to 24
	nop
	.cfi_restore_state	# back to 16
	ret
	.cfi_endproc
