	.text
	.globl	f
	.type	f, @function
f:
	ret
	.size	f, .-f
	.section	.note.GNU-stack, "", @progbits
	.section	.sframe, "a", @0x6ffffff4
	.short	0xdee3			# not the magic number, 0xdee2
	.byte	3, 4			# the version; starts are relative to their fields
	.byte	3, 0, -8, 0		# AMD64, the return address at CFA - 8
	.long	1, 1, 8, 0, 16
	.quad	f - .
	.long	1, 0			# the size, the offset of the rows
	.short	1			# one row
	.byte	0, 0, 0
	.byte	0, 3, 8			# CFA = rsp + 8
