	.globl g
g:
	.cfi_startproc
	ret
	.cfi_endproc
