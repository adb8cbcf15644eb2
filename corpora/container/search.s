# A stripped program without CFI. Only some addresses of its code are starts of functions.
	.text
	.globl _start
_start:
	lea pointed(%rip), %rax
	push %rax
	call called
	pop %rax
	mov $60, %eax
	xor %edi, %edi
	syscall
	ud2

	.balign 16
called:					# a call that a path reaches leads here
	push %rbx
	mov %rdi, %rbx
	test %rbx, %rbx
	je cold				# a jump with a frame: its target is a fragment
	js 1f
back:	pop %rbx
	ret
1:	call never			# this call does not return

	.balign 16
never:					# a function that never returns, which a path calls
	sub $8, %rsp
1:	pause
	jmp 1b

	.balign 16
pointed:				# an address that an instruction computes, and whose code returns
	sub $24, %rsp
	call called
	add $24, %rsp
	ret

	.balign 16
after_padding:				# nothing leads here, but the code returns
	push %rbp
	call called
	pop %rbp
	ret

	.balign 16
runtime:				# code with a stack of its own, which ends with jumps; data names it
	add $16, %rbp
	cmp %rbp, 16(%r13)
	jb 1f
	jmp *(%rbp)
1:	movq $0x48, 0x388(%r13)
	jmp *-8(%r13)

	.balign 16
	.byte 0xe8			# data that looks like a call of the label above
	.long 1b - 2f
2:	.byte 0, 0, 0
	.quad 5

	.section .text.unlikely, "ax"
cold:					# a fragment, which goes back into its function with the frame in place
	xor %edx, %edx
	jmp back

	.data
	.quad pointed, runtime, back
