	.text
	.globl	f
f:	.cfi_startproc
	brasl	%r14, ii@plt
	brasl	%r14, a@plt
	br	%r14
	.cfi_endproc
	.type	ii, @gnu_indirect_function
ii:	br	%r14
