f:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
g:
	.cfi_startproc
	.cfi_offset 6, -24
	nop
	.cfi_offset 6, -16
	nop
	.cfi_restore 6		# to the rule of the CIE, which f and g share
	ret
	.cfi_endproc
