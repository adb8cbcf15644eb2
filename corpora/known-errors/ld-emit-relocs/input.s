	.text 1
g:	# the first FDE, the second function
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.text 0
f:
	.cfi_startproc
	ret
	.cfi_endproc
