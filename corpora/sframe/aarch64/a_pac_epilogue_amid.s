/* a_pac_epilogue_amid: a signed return address, authenticated in an epilogue amid the function, and signed again after it */
	.text
f:
	.cfi_startproc
	paciasp
	.cfi_negate_ra_state
	stp x29,x30,[sp,-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29,-32
	.cfi_offset 30,-24
	mov x29,sp
	.cfi_def_cfa_register 29
	.cfi_remember_state
	ldp x29,x30,[sp],32
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa 31,0
	autiasp
	.cfi_negate_ra_state
	ret
	.cfi_restore_state
	nop
	.cfi_endproc
	.size f, .-f
