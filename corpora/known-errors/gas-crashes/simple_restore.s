# .cfi_restore of a frame pointer without a rule.
f:
	.cfi_startproc simple
	.cfi_restore 6
	.cfi_def_cfa 7, 8
	nop
	ret
	.cfi_endproc
