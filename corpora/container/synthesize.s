# Functions without CFI, for rows that are made of their code; with --defsym described=1 those that can have rows have the CFI
# that an author would write.
	.macro cfi directive:vararg
	.ifdef described
	.cfi_\directive
	.endif
	.endm
	.macro function name
	.p2align 4
	.type \name, @function
\name:
	.endm

	.text
	function framed
	cfi startproc
	push %rbp
	cfi def_cfa_offset 16
	cfi offset rbp, -16
	mov %rsp, %rbp
	cfi def_cfa_register rbp
	push %rbx
	sub $24, %rsp
	test %edi, %edi
	je 1f
	call leaf
1:	add $24, %rsp
	pop %rbx
	pop %rbp
	cfi def_cfa rsp, 8
	cfi restore rbp
	ret
	cfi endproc
	.size framed, . - framed

	function leaf
	cfi startproc
	lea (%rdi,%rdi), %eax
inside_leaf:
	ret
	cfi endproc
	.size leaf, . - leaf

	function twice
	cfi startproc
	push %rdi
	cfi def_cfa_offset 16
	call leaf
	pop %rdi
	cfi def_cfa_offset 8
	jmp leaf
	cfi endproc
	.size twice, . - twice

	# Each of the following gets no rows, for a reason of its own.
	function indirect_jump
	push %rax
	jmp *%rdi
	.size indirect_jump, . - indirect_jump

	function another_stack
	mov %rsp, (%rdi)
	mov (%rsi), %rsp
	ret
	.size another_stack, . - another_stack

	function stack_at_return
	push %rax
	ret
	.size stack_at_return, . - stack_at_return

	function not_restored
	xor %ebx, %ebx
	ret
	.size not_restored, . - not_restored

	function odd_call
	push %rbx
	call not_restored
	pop %rbx
	ret
	.size odd_call, . - odd_call

	function never_returns
1:	jmp 1b
	.size never_returns, . - never_returns

	function starts_thread
	mov $56, %eax
	syscall
	ret
	.size starts_thread, . - starts_thread

	function into_function
	jmp inside_entered
	.size into_function, . - into_function

	function entered
	lea (%rdi,%rdi), %eax
inside_entered:
	ret
	.size entered, . - entered

	# A function that has CFI enters it with a frame in place.
	function part
	xor %eax, %eax
	ret
	.size part, . - part

	.p2align 4
label:
	xor %eax, %eax
	ret

	.p2align 4
	.globl has_cfi
	.type has_cfi, @function
has_cfi:
	.cfi_startproc
	xor %eax, %eax
	ret
	.cfi_endproc
	.size has_cfi, . - has_cfi

	.p2align 4
	.type has_part, @function
has_part:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	jmp part
	.cfi_endproc
	.size has_part, . - has_part
	.section .note.GNU-stack, "", @progbits
