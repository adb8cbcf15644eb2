_f:
	.cfi_startproc
	.cfi_personality 155, ___gxx_personality_v0
	.cfi_lsda 16, exception
	jmp _g
	.cfi_endproc
	.section __TEXT,__gcc_except_tab
exception:
	.long 0
	.subsections_via_symbols
