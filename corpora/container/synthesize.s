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

	function calls_shared
	cfi startproc
	push %rdi
	cfi def_cfa_offset 16
	call shared
	pop %rdi
	cfi def_cfa_offset 8
	ret
	cfi endproc
	.size calls_shared, . - calls_shared

	# Two functions with one end.
	function first
	cfi startproc
	jmp end_of_both
	cfi endproc
	.size first, . - first

	function second
	cfi startproc
	lea (%rdi,%rdi), %eax
end_of_both:
	ret
	cfi endproc
	.size second, . - second

	# As compilers divide functions: one part is elsewhere, is entered with the frame in place, and jumps back.
	function divided
	cfi startproc
	push %rbp
	cfi def_cfa_offset 16
	cfi offset rbp, -16
	mov %rdi, %rbp
	test %edi, %edi
	je divided.cold
after_cold:
	pop %rbp
	cfi def_cfa_offset 8
	cfi restore rbp
	ret
	cfi endproc
	.size divided, . - divided

	function divided.cold
	cfi startproc
	cfi def_cfa_offset 16
	cfi offset rbp, -16
	sub $16, %rsp
	cfi def_cfa_offset 32
	call leaf
	add $16, %rsp
	cfi def_cfa_offset 16
	jmp after_cold
	cfi endproc
	.size divided.cold, . - divided.cold

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
	jmp inside_cfi
	.size into_function, . - into_function

	# Both a function and the rest of one with a frame.
	function shared
	xor %eax, %eax
	ret
	.size shared, . - shared

	function jumps_to_shared
	push %rax
	jmp shared
	.size jumps_to_shared, . - jumps_to_shared

	# A function that has CFI enters it with a frame in place.
	function part
	xor %eax, %eax
	ret
	.size part, . - part

	.p2align 4
label:
	cfi startproc
	xor %eax, %eax
	ret
	cfi endproc

	.p2align 4
	.globl has_cfi
	.type has_cfi, @function
has_cfi:
	.cfi_startproc
	xor %eax, %eax
inside_cfi:
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
