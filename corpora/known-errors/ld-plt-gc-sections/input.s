	.globl f
f:
	.cfi_startproc
	jmp external@PLT
	.cfi_endproc
