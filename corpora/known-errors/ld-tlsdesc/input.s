	.globl f
f:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	call external@PLT
	lea variable@tlsdesc(%rip), %rax
	call *variable@tlscall(%rax)
	pop %rcx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.section .tdata, "awT", @progbits
	.globl variable
variable:
	.quad 1
