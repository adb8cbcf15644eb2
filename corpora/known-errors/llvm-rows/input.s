same_place:
	.cfi_startproc
	nop
	.cfi_offset 6, 0
	ret
	.cfi_endproc
relative:
	.cfi_startproc
	sub $16, %rsp
	.cfi_def_cfa_offset 24
	.cfi_rel_offset 6, 8		# at rsp+8, which is CFA-16
	ret
	.cfi_endproc
in_register:
	.cfi_startproc
	nop
	.cfi_register 6, 0
	nop
	ret
	.cfi_endproc
distant:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset 2147483648
	ret
	.cfi_endproc
simple:
	.cfi_startproc simple
	nop
	ret
	.cfi_endproc
