# Functions for `explain`: code beside CFI that agrees with it, and CFI that does not.
	.intel_syntax noprefix
	.text

# Saves registers, aligns and moves the stack, and has a block after a call that does not return.
	.globl agrees
	.type agrees, @function
agrees:
	.cfi_startproc
	push rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov rbp, rsp
	.cfi_def_cfa_register rbp
	push rbx
	.cfi_offset rbx, -24
	and rsp, -32
	sub rsp, rdi
	test rdi, rdi
	je 1f
	lea rsp, [rbp - 8]
	.cfi_remember_state
	pop rbx
	pop rbp
	.cfi_restore rbp
	.cfi_restore rbx
	.cfi_def_cfa rsp, 8
	ret
	.p2align 4
1:	.cfi_restore_state
	call agrees
	.cfi_endproc
	.size agrees, . - agrees

# A push that no row follows.
	.type no_row, @function
no_row:
	.cfi_startproc
	push rbx
	call agrees
	pop rbx
	ret
	.cfi_endproc
	.size no_row, . - no_row

# A row that no instruction causes.
	.globl no_instruction
	.type no_instruction, @function
no_instruction:
	.cfi_startproc
	nop
	.cfi_def_cfa_offset 16
	nop
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size no_instruction, . - no_instruction

# 24 bytes by the row, 16 by the instruction; and a return from there.
	.type mismatch, @function
mismatch:
	.cfi_startproc
	sub rsp, 16
	.cfi_def_cfa_offset 32
	ret
	.cfi_endproc
	.size mismatch, . - mismatch

# A branch to a row of another frame.
	.type branch, @function
branch:
	.cfi_startproc
	test edi, edi
	je 1f
	push rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
1:	pop rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size branch, . - branch

# As Cranelift describes functions: the prologue only.
	.type prologue_only, @function
prologue_only:
	.cfi_startproc
	push rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov rbp, rsp
	.cfi_def_cfa_register rbp
	sub rsp, 16
	mov [rsp], rbx
	.cfi_offset rbx, -32
	mov rbx, [rsp]
	add rsp, 16
	mov rsp, rbp
	pop rbp
	ret
	.cfi_endproc
	.size prologue_only, . - prologue_only

# A row that starts inside an instruction.
	.type boundary, @function
boundary:
	.cfi_startproc
	.byte 0x48
	.cfi_def_cfa_offset 16
	.byte 0x83, 0xec, 8
	add rsp, 8
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size boundary, . - boundary
