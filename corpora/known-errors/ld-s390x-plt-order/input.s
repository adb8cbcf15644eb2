	.globl f
f:
	.cfi_startproc
	brasl %r14, external@PLT
	br %r14
	.cfi_endproc
