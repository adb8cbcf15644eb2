	.text 1
f:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	pop %rax
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.text 0			# before f, whose FDE is the first
empty:
	.cfi_startproc
	.cfi_endproc
