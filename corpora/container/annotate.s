# A source for `annotate`: functions without CFI, whose directives stand before lines and between the statements of one, and
# functions that get none.
	.macro save
	push %rbx
	push %r12
	.endm

	.text
	.globl framed
	.type framed, @function
framed:
	push %rbp		# the frame record; of the caller
	mov %rsp, %rbp
	push %rbx; sub $24, %rsp
	test %edi, %edi
	je 1f
	call other
1:	mov -8(%rbp), %rbx
	leave
	.byte 0xf3, 0xc3	# rep ret
	.size framed, . - framed

	.type on_one_line, @function
on_one_line: push %r12; call other; pop %r12; ret
	.size on_one_line, . - on_one_line

	.type two_ways, @function
two_ways: push %rbx
	/* A comment
	over lines */
	mov %rdi, %rbx
	test %rbx, %rbx
	js 2f
	pop %rbx
	ret
	.p2align 4
2:	call other
	pop %rbx
	jmp other
	.size two_ways, . - two_ways

	.type described, @function
described:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	call other
	pop %rax
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size described, . - described

	# No line is one instruction's of a macro, or of a loop.
	.type by_macro, @function
by_macro:
	save
	call other
	pop %r12
	pop %rbx
	ret
	.size by_macro, . - by_macro

	.type by_loop, @function
by_loop:
	.rept 2
	push %rax
	.endr
	call other
	add $16, %rsp
	ret
	.size by_loop, . - by_loop

	.type unknown_jump, @function
unknown_jump:
	push %rax
	jmp *%rdi
	.size unknown_jump, . - unknown_jump
