# A stripped shared library without CFI. The dynamic symbol table names one of its functions.
	.text
	.globl named
	.type named, @function
named:					# its last instructions are a landing pad, which no path leads to
	push %rbx
	call holed
	pop %rbx
	ret
	mov %rax, %rdi
	mov %rax, (%rbx)
	jmp named_end
named_end:
	ud2
	.size named, . - named

	.balign 16
holed:					# the code after its first call ends with a call that does not return
	push %rbx
	mov %rdi, %rbx
	test %rbx, %rbx
	je 1f
	call leaf
	mov $1, %edi
	call never
1:	pop %rbx
	ret

	.balign 16
leaf:
	lea 1(%rdi), %rax
	ret

	.balign 16
never:
	sub $8, %rsp
1:	pause
	jmp 1b

	.balign 16
virtual:				# only a pointer leads here, and it ends with a jump to a function
	push %rbp
	mov (%rdi), %rbp
	call *(%rbp)
	pop %rbp
	jmp leaf

	.balign 16
saving:					# only a jump to an unknown address ends it, but a function can follow
	push %rbx
	mov %rdi, %rbx
	call leaf
	mov (%rbx), %rax
	pop %rbx
	jmp *(%rax)

	.balign 16
after_saving:
	sub $8, %rsp
	call leaf
	add $8, %rsp
	ret

	.balign 16
runtime:				# code with a stack of its own: nothing is a function here or after it
	sub $8, %rsp
	call leaf
	add $8, %rsp
	jmp *(%rbp)

	.balign 16
	mov 8(%rsp), %rax
	ret

	.section .data.rel.ro, "aw"
	.quad virtual, runtime
