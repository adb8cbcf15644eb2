/* a_remember_nested_fp: gas finds the frame pointer saved alone in its one remembered state */
	.text
f:
	.cfi_startproc
	nop
	.cfi_undefined 30
	nop
	.cfi_offset 29, -16
	.cfi_remember_state
	.cfi_same_value 29
	nop
	.cfi_remember_state
	nop
	.cfi_restore_state
	nop
	.cfi_restore_state
	nop
	.cfi_endproc
	.size f, .-f
g:
	.cfi_startproc
	nop
	.cfi_remember_state
	nop
	.cfi_offset 30, -8
	.cfi_offset 29, -16
	nop
	.cfi_remember_state
	nop
	.cfi_restore_state
	nop
	.cfi_restore_state
	.cfi_same_value 30
	nop
	.cfi_endproc
	.size g, .-g
