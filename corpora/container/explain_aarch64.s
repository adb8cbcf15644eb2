# Functions for `explain` on AArch64.
	.text
	.type agrees, %function
agrees:
	.cfi_startproc
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov x29, sp
	.cfi_def_cfa_register x29
	str x19, [sp, #16]
	.cfi_offset x19, -16
	sub sp, sp, #4096
	cbz x0, 1f
	bl agrees
1:	mov sp, x29
	.cfi_def_cfa_register sp
	ldr x19, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_restore x19
	.cfi_restore x29
	.cfi_restore x30
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size agrees, . - agrees

	.type prologue_only, %function
prologue_only:
	.cfi_startproc
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov x29, sp
	.cfi_def_cfa_register x29
	ldp x29, x30, [sp], #16
	ret
	.cfi_endproc
	.size prologue_only, . - prologue_only

	.type no_row, %function
no_row:
	.cfi_startproc
	sub sp, sp, #16
	add sp, sp, #16
	ret
	.cfi_endproc
	.size no_row, . - no_row
