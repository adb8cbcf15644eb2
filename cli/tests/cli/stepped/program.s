# Functions with right and with wrong CFI, for a program that is stepped: `right_` and `wrong_` begin their names. Nothing but
# the CFI of the wrong ones is wrong: each of them runs and returns.
	.macro function name
	.p2align 4
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm
	.macro end name
	.cfi_endproc
	.size \name, . - \name
	.endm

	.text
	function right_leaf
	lea (%rdi,%rdi), %rax
	ret
	end right_leaf

	function right_saves
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	push %rbx
	.cfi_def_cfa_offset 24
	.cfi_offset rbx, -24
	mov $7, %ebx
	mov $9, %ebp
	sub $24, %rsp
	.cfi_def_cfa_offset 48
	call right_leaf
	add $24, %rsp
	.cfi_def_cfa_offset 24
	pop %rbx
	.cfi_restore rbx
	.cfi_def_cfa_offset 16
	pop %rbp
	.cfi_restore rbp
	.cfi_def_cfa_offset 8
	ret
	end right_saves

	function right_frame_pointer
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register rbp
	sub $40, %rsp
	and $-32, %rsp
	call right_leaf
	leave
	.cfi_def_cfa rsp, 8
	.cfi_restore rbp
	ret
	end right_frame_pointer

	function right_two_ends
	test %rdi, %rdi
	je 1f
	push %rdi
	.cfi_def_cfa_offset 16
	.cfi_remember_state
	call right_leaf
	pop %rdi
	.cfi_def_cfa_offset 8
	ret
1:	xor %eax, %eax
	ret
	end right_two_ends

	# The row after the push is missing.
	function wrong_no_row
	push %rdi
	call right_leaf
	pop %rdi
	nop
	ret
	end wrong_no_row

	# The size is not the code's.
	function wrong_size
	sub $24, %rsp
	.cfi_def_cfa_offset 24
	call right_leaf
	add $24, %rsp
	.cfi_def_cfa_offset 8
	ret
	end wrong_size

	# The row comes an instruction too late, as LLVM has it of pushes that are scheduled apart.
	function wrong_late
	push %rdi
	lea 1(%rdi), %rax
	.cfi_def_cfa_offset 16
	nop
	pop %rdi
	.cfi_def_cfa_offset 8
	ret
	end wrong_late

	# And too early.
	function wrong_early
	nop
	.cfi_def_cfa_offset 16
	nop
	push %rdi
	call right_leaf
	pop %rdi
	.cfi_def_cfa_offset 8
	ret
	end wrong_early

	# The frame is gone before the branch, and not in the rows, as LLVM has it where both ways remove it.
	function wrong_before_branch
	sub $8, %rsp
	.cfi_def_cfa_offset 16
	call right_leaf
	add $8, %rsp
	test %rax, %rax
	je 1f
	.cfi_def_cfa_offset 8
	nop
	ret
1:	nop
	ret
	end wrong_before_branch

	# The registers' places are exchanged, as in OpenSSL.
	function wrong_places
	push %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	push %rbp
	.cfi_def_cfa_offset 24
	.cfi_offset rbx, -24
	mov $7, %ebx
	mov $9, %ebp
	call right_leaf
	pop %rbp
	.cfi_restore rbp
	.cfi_def_cfa_offset 16
	pop %rbx
	.cfi_restore rbx
	.cfi_def_cfa_offset 8
	ret
	end wrong_places

	# The frame pointer is the caller's again, and the rows are still based on it, as GCC 12 has it on AArch64.
	function wrong_base
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register rbp
	call right_leaf
	pop %rbp
	nop
	.cfi_def_cfa rsp, 8
	.cfi_restore rbp
	ret
	end wrong_base

	.globl _start
	.type _start, @function
_start:
	.cfi_startproc
	.cfi_undefined rip
	mov $0x1111, %ebx
	mov $0x2222, %ebp
	mov $3, %edi
	call right_leaf
	call right_saves
	call right_frame_pointer
	mov $3, %edi
	call right_two_ends
	xor %edi, %edi
	call right_two_ends
	mov $3, %edi
	call wrong_no_row
	call wrong_size
	call wrong_late
	call wrong_early
	call wrong_before_branch
	xor %edi, %edi
	call wrong_before_branch
	call wrong_places
	call wrong_base
	mov $60, %eax
	xor %edi, %edi
	syscall
	.cfi_endproc
	.size _start, . - _start
	.section .note.GNU-stack, "", @progbits
