# A program of two objects: `described_twice` has its call frame information in .eh_frame and in
# .debug_frame, the functions of the other object in .debug_frame alone.
.ifdef twice
	.cfi_sections .eh_frame, .debug_frame
	.text
	.globl described_twice
	.type described_twice, @function
described_twice:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	pop %rbp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size described_twice, . - described_twice
.else
	.cfi_sections .debug_frame
	.text
	.globl _start
	.type _start, @function
_start:
	.cfi_startproc
	.cfi_undefined 16
	call described_twice
	hlt
	.cfi_endproc
	.size _start, . - _start
	.type own, @function
own:
	.cfi_startproc
	sub $40, %rsp
	.cfi_def_cfa_offset 48
	add $40, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size own, . - own
	# Nobody calls it: the linker discards it, and leaves its FDE with a start of 0.
	.section .text.discarded, "ax", @progbits
	.type discarded, @function
discarded:
	.cfi_startproc
	ret
	.cfi_endproc
	.size discarded, . - discarded
.endif
