/* x_remember_nested_args: gas takes args_size for the base that its one remembered state has */
	.text
f:
	.cfi_startproc
	nop
	.cfi_undefined %rip
	nop
	.cfi_remember_state
	nop
	.cfi_def_cfa %rbp, 16
	nop
	.cfi_remember_state
	nop
	.cfi_restore_state
	nop
	.cfi_restore_state
	nop
	.cfi_escape 0x2e,8
	nop
	.cfi_endproc
	.size f, .-f
g:
	.cfi_startproc
	nop
	.cfi_undefined %rip
	.cfi_def_cfa %rbp, 16
	nop
	.cfi_remember_state
	nop
	.cfi_def_cfa %rsp, 8
	nop
	.cfi_remember_state
	nop
	.cfi_restore_state
	nop
	.cfi_restore_state
	nop
	.cfi_escape 0x2e,8
	nop
	.cfi_endproc
	.size g, .-g
