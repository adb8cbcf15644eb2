/* x_simple_offset_late: simple, a rule after an instruction, and no CFA */
	.text
f:
	.cfi_startproc simple
	.skip 4
	.cfi_offset 6, -16
	.skip 4
	.cfi_endproc
