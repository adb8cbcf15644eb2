# gas omits the only function, and writes a header alone.
f:
	.cfi_startproc
	.cfi_undefined 7
	ret
	.cfi_endproc
