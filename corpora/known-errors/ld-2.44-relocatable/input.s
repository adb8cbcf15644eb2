f:
	.cfi_startproc
	ret
	.cfi_endproc
