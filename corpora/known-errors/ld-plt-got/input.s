	.globl f
f:
	.cfi_startproc
	mov external@GOTPCREL(%rip), %rax
	jmp external@PLT	# with an entry of the GOT that is bound at once: a stub in .plt.got
	.cfi_endproc
