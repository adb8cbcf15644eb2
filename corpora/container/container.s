/* Functions in three sections, one of them in a group; what an optimiser put aside beside them. */
	.ifdef debug_frame
	.cfi_sections .debug_frame
	.endif
	.text
	.globl first
	.type first, @function
first:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	call second@plt
	pop %rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size first, .-first
	.type third, @function
third:
	.cfi_startproc
	ret
	.cfi_endproc
	.size third, .-third
	.section .text.second,"axG",@progbits,second,comdat
	.weak second
	.type second, @function
second:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size second, .-second
	.section .bolt.org.text,"ax",@progbits
	nop
	.section .bolt.org.eh_frame,"a",@progbits
	.long 0x12345678
	.section .text.unlikely,"ax",@progbits
	nop
	.type fourth, @function
fourth:
	.cfi_startproc
	ud2
	.cfi_endproc
	.size fourth, .-fourth
	.section .note.GNU-stack,"",@progbits
