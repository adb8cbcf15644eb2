# A table beside two .eh_frame sections. Each of the three has a function that no other has, and the table also has the
# function of the second .eh_frame.
	.macro	frame function, pop, size
	.balign	8
0:	.long	2f - 1f
1:	.long	0
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
2:	.long	4f - 3f
3:	.long	3b - 0b
	.long	\function - .
	.long	\size
	.uleb128 0
	.byte	0x40 + 1, 0x0e, 16	# after 1 byte CFA = rsp + 16
	.byte	0x40 + \pop, 0x0e, 8
	.balign	8
4:
	.endm

	.text
	.globl	main
	.type	main, @function
main:
	pushq	%rbp
	call	by_second
	call	by_table
	xorl	%eax, %eax
	popq	%rbp
	ret
	.size	main, .-main

by_second:
	pushq	%rbp
	popq	%rbp
	ret

	.section	text_of_table, "ax", @progbits
by_table:
	pushq	%rbp
	popq	%rbp
	ret

	.section	.eh_frame, "a", @unwind
	frame	main, 13, 15
	.section	.eh_frame, "a", @unwind, unique, 2
	frame	by_second, 1, 3

	# Version 3: two functions, three rows each.
	.section	.sframe, "a", @progbits
	.short	0xdee2
	.byte	3, 4			# starts are relative to their fields
	.byte	3, 0, -8, 0		# AMD64, the return address at CFA - 8
	.long	2, 6, 28, 0, 32
	.quad	by_table - .
	.long	3, 0			# bytes of code, rows
	.quad	by_second - .
	.long	3, 14
	.rept	2
	.short	3
	.byte	0, 0, 0
	.byte	0, 3, 8			# CFA = rsp + 8
	.byte	1, 3, 16
	.byte	2, 3, 8
	.endr
	.section	.note.GNU-stack, "", @progbits
