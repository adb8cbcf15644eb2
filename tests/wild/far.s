	// Three objects of a program. Object 2 keeps the other two out of reach of a branch.
	.text
	.p2align 2
	.ifeq	part - 1
	.globl	main
	.type	main, %function
main:
	.cfi_startproc
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov	w0, #-3
	bl	callee
	bl	without_cfi
	// The other part of this function, with this frame.
	b	rest
	.cfi_endproc
	.size	main, .-main
	.endif

	.ifeq	part - 2
	.skip	0x8400000
	.endif

	.ifeq	part - 3
	.globl	callee
	.type	callee, %function
callee:
	.cfi_startproc
	// In the PLT.
	b	abs
	.cfi_endproc
	.size	callee, .-callee

	.globl	without_cfi
	.type	without_cfi, %function
without_cfi:
	ret
	.size	without_cfi, .-without_cfi

	.globl	rest
	.type	rest, %function
rest:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	sub	w0, w0, #3
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	ret
	.cfi_endproc
	.size	rest, .-rest
	.endif
	.section .note.GNU-stack, "", %progbits
