# Stubs in .plt, which ld binds lazily, and in .plt.got, for a symbol that the GOT has too. With
# --no-ld-generated-unwind-info, ld writes rows for them and no CFI.
	.globl f
f:
	.cfi_startproc
	mov external@GOTPCREL(%rip), %rax
	call lazy@PLT
	jmp external@PLT
	.cfi_endproc
