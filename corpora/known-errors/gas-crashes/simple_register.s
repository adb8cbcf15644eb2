# A saved frame pointer before the CFA, at the same place.
f:
	.cfi_startproc simple
	.cfi_offset 6, -16
	.cfi_def_cfa 7, 8
	nop
	ret
	.cfi_endproc
