# Everything that a listing may have around directives: macros, conditions, repetitions, sections, long data, comments.
	.macro	enter size
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	.if	\size
	sub	$\size, %rsp
	.endif
	.endm
	.set	frame, 24
	.text
	.globl	first
	.type	first, @function
first:	.cfi_startproc
	.cfi_personality 0x9b, DW.ref.personality
	.cfi_lsda 0x1b, lsda
	enter	frame
	nop /* a comment
	over lines */
	.cfi_remember_state
	leave
	.cfi_def_cfa rsp, 8
	.cfi_restore rbp
	ret
	.cfi_restore_state
1:	call	other; nop
	.skip	100
	.cfi_escape 0x2e, uleb128(0x90), 'a' # arguments
	leave
	.cfi_def_cfa %rsp, 8
	jmp	1b
	.cfi_endproc
	.size	first, .-first
	.pushsection .rodata
lsda:	.byte	0xff, 0xff, 1, 0
	.popsection
	.weak	folded
	.section .text.folded,"axG",@progbits,folded,comdat
folded:	.cfi_startproc
	enter	0
	.rept	3
	nop
	.cfi_adjust_cfa_offset 8
	.endr
	movabs	$0x123456789abcdef0, %rax
	.cfi_def_cfa_offset frame - 8
	.cfi_undefined rip
	ret
	.cfi_endproc
	.section .text.unlikely,"ax",@progbits
cold:	.cfi_startproc simple
	.cfi_signal_frame
	.cfi_def_cfa 7, 160
	.cfi_offset 16, -8
	.cfi_offset rbx, -24
	.if	frame == 24
	.cfi_window_save
	.else
	.cfi_undefined 3
	.endif
	.p2align 4
	.cfi_same_value r12
	.cfi_register r13, rax
	.cfi_val_offset r14, -8
	.cfi_return_column 16
	ud2
	.cfi_endproc
	.previous
last:	.cfi_startproc
	mov	$1, %eax
	ret
	.cfi_endproc
	.section .note.GNU-stack,"",@progbits
