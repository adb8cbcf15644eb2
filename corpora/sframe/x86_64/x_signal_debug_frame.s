	.cfi_sections .debug_frame
	.text
	.globl a
	.type a, @function
a:
	.cfi_startproc
	nop
	.cfi_endproc
	.size a, . - a
	.globl b
	.type b, @function
b:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa_offset 176
	nop
	.cfi_endproc
	.size b, . - b
