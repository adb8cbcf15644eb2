f:	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register 6
	pop	%rbp
	.cfi_def_cfa 7, 8
	.cfi_restore 6
	ret
	.cfi_endproc
