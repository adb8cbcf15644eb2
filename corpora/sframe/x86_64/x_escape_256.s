/* x_escape_256: an operand of .cfi_escape that gas truncates to a byte, after it has looked at it */
	.text
f:
	.cfi_startproc
	.byte 1
	.cfi_escape 0x100
	.byte 1
	.cfi_endproc
