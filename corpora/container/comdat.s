# A function in a group, and one that is not: a relocatable link of two such objects leaves the second
# group's code out, and keeps its FDE. With `debug_frame` they are described in .debug_frame.
	.ifdef debug_frame
	.cfi_sections .debug_frame
	.endif
	.text
	.type own, @function
own:
	.cfi_startproc
	call shared
	ret
	.cfi_endproc
	.size own, . - own
	.section .text.shared, "axG", @progbits, shared, comdat
	.weak shared
	.type shared, @function
shared:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	pop %rbp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size shared, . - shared
	.section .note.GNU-stack, "", @progbits
