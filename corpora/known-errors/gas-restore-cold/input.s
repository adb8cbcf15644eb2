	.file	"input.c"
	.text
	.section	.text.unlikely,"ax",@progbits
.LCOLDB0:
	.text
.LHOTB0:
	.p2align 4
	.globl	read_all
	.type	read_all, @function
read_all:
.LFB0:
	.cfi_startproc
	subq	$56, %rsp
	.cfi_def_cfa_offset 64
	movq	(%rdi), %rax
	movq	%rbx, 8(%rsp)
	.cfi_offset 3, -56
	movq	%rdx, %rbx
	movq	%r13, 32(%rsp)
	.cfi_offset 13, -32
	movq	%rdi, %r13
	movq	%r14, 40(%rsp)
	.cfi_offset 14, -24
	movq	%rsi, %r14
	movq	%r12, 24(%rsp)
	cmpq	8(%rdi), %rax
	.cfi_offset 12, -40
	je	.L11
	movq	%rbp, 16(%rsp)
	movq	%r15, 48(%rsp)
	.cfi_offset 6, -48
	.cfi_offset 15, -16
.L2:
	movzbl	(%rax), %r15d
	movq	%r14, %r12
	.p2align 4
	.p2align 3
.L6:
	movq	%rbx, %rdx
	movq	%r12, %rsi
	movq	%r13, %rdi
	call	read_record@PLT
	movq	%rax, %rbp
	testq	%rax, %rax
	js	.L4
	jne	.L5
	movq	%r13, %rdi
	call	*16(%r13)
	cmpq	%r15, %rax
	je	.L4
.L5:
	subq	%rbp, %rbx
	addq	%rbp, %r12
	cmpq	%rbx, %r15
	jl	.L6
	movq	16(%rsp), %rbp
	.cfi_restore 6
	movq	48(%rsp), %r15
	.cfi_restore 15
	subq	%r14, %r12
.L3:
	movq	%r12, %rsi
	movq	%r13, %rdi
	call	*24(%r13)
	movq	%r12, %rax
	movq	8(%rsp), %rbx
	movq	24(%rsp), %r12
	movq	32(%rsp), %r13
	movq	40(%rsp), %r14
	addq	$56, %rsp
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret
	.p2align 4,,10
	.p2align 3
.L11:
	.cfi_restore_state
	call	*16(%rdi)
	movq	%rax, %r12
	testq	%rax, %rax
	jle	.L3
	movq	%rbp, 16(%rsp)
	movq	0(%r13), %rax
	movq	%r15, 48(%rsp)
	.cfi_offset 6, -48
	.cfi_offset 15, -16
	jmp	.L2
	.cfi_endproc
	.section	.text.unlikely
	.cfi_startproc
	.type	read_all.cold, @function
read_all.cold:
.LFSB0:
.L4:
	.cfi_def_cfa_offset 64
	.cfi_offset 3, -56
	.cfi_offset 6, -48
	.cfi_offset 12, -40
	.cfi_offset 13, -32
	.cfi_offset 14, -24
	.cfi_offset 15, -16
	movq	%r12, %rsi
	movq	%r13, %rdi
	subq	%r14, %rsi
	call	damaged@PLT
	movq	16(%rsp), %rbp
	.cfi_restore 6
	movq	48(%rsp), %r15
	.cfi_restore 15
	movq	%rax, %r12
	jmp	.L3
	.cfi_endproc
.LFE0:
	.text
	.size	read_all, .-read_all
	.section	.text.unlikely
	.size	read_all.cold, .-read_all.cold
.LCOLDE0:
	.text
.LHOTE0:
	.ident	"GCC: (Debian 16.2.0-4) 16.2.0"
	.section	.note.GNU-stack,"",@progbits
