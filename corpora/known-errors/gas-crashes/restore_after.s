# .cfi_restore_state after another directive at the same place.
f:
	.cfi_startproc
	nop
	.cfi_remember_state
	push %rax
	.cfi_def_cfa_offset 16
	nop
	.cfi_def_cfa_offset 24
	.cfi_restore_state
	ret
	.cfi_endproc
