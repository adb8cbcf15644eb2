# A frame pointer that keeps its value, before the CFA: a segmentation fault.
f:
	.cfi_startproc simple
	.cfi_same_value 6
	.cfi_def_cfa 7, 8
	nop
	ret
	.cfi_endproc
