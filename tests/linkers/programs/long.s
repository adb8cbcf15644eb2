# Functions of three bytes that claim to be longer than their sections: one in its FDE, the other in its table.
	.text
	.globl	main
	.type	main, @function
main:
	.cfi_startproc
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	call	by_fde
	call	by_table
	call	claimed
	xorl	%eax, %eax
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	main, .-main

	.section	.text.by_table, "ax", @progbits
by_table:
	pushq	%rbp
	popq	%rbp
	ret

	.section	.text.by_fde, "ax", @progbits
by_fde:
	pushq	%rbp
	popq	%rbp
	ret

	# Code without CFI, which the FDE claims too.
	.section	.text.claimed, "ax", @progbits
claimed:
	.skip	64, 0x90
	ret

	.section	.eh_frame, "a", @unwind
cie:
	.long	cie_end - cie_id
cie_id:
	.long	0
	.byte	1
	.string	"zR"
	.uleb128 1
	.sleb128 -8
	.uleb128 16
	.uleb128 1
	.byte	0x1b			# starts are relative to their fields, 4 bytes, signed
	.byte	0x0c, 7, 8		# CFA = rsp + 8
	.byte	0x80 + 16, 1		# return address at CFA - 8
	.balign	8
cie_end:
	.long	fde_end - fde_id
fde_id:
	.long	fde_id - cie
	.long	by_fde - .
	.long	64			# bytes of code
	.uleb128 0
	.byte	0x40 + 1, 0x0e, 16	# after 1 byte CFA = rsp + 16
	.byte	0x40 + 1, 0x0e, 8
	.balign	8
fde_end:

	# Version 3: one function, three rows.
	.section	.sframe, "a", @progbits
	.short	0xdee2
	.byte	3, 4			# starts are relative to their fields
	.byte	3, 0, -8, 0		# AMD64, the return address at CFA - 8
	.long	1, 3, 14, 0, 16
	.quad	by_table - .
	.long	0x1000, 0		# bytes of code
	.short	3
	.byte	0, 0, 0
	.byte	0, 3, 8			# CFA = rsp + 8
	.byte	1, 3, 16
	.byte	2, 3, 8
	.section	.note.GNU-stack, "", @progbits
