	.section .text.f, "axG", @progbits, f, comdat
	.weak f
f:
	.cfi_startproc
	ret
	.cfi_endproc
