# Input for which the program is not to blame: a damaged .sframe, and FDEs that share PCs.
	.text
	.globl	main
	.type	main, @function
main:
	.cfi_startproc
	subq	$8, %rsp
	.cfi_def_cfa_offset 16
	call	outer
	subl	$5, %eax
	addq	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	main, .-main

	.type	outer, @function
outer:
	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
inner:
	movl	$5, %eax
	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
end:
	.size	outer, .-outer

	# A CIE and an FDE of the code from inner on.
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
	.byte	0x0c, 7, 16		# CFA = rsp + 16
	.byte	0x80 + 16, 1		# return address at CFA - 8
	.balign	8
cie_end:
	.long	fde_end - fde_id
fde_id:
	.long	fde_id - cie
	.long	inner - .
	.long	end - inner
	.uleb128 0
	.byte	0x40 + 6, 0x0e, 8	# after 6 bytes CFA = rsp + 8
	.balign	8
fde_end:

	.section	.sframe, "a", @progbits
	.ascii	"this is not a table of any version"
	.section	.note.GNU-stack, "", @progbits
