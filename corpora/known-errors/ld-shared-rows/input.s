# Four functions of one byte whose rows are the same bytes: version 3 of the format, index entries with one offset.
	.text
f:	ret
g:	ret
h:	ret
i:	ret
	.section .sframe, "a", @0x6ffffff4
	.p2align 3
	.short 0xdee2		# magic
	.byte 3, 4		# version; flags: starts count from their fields
	.byte 3, 0, -8, 0	# AMD64; return address at CFA-8
	.long 4, 4, 8, 0, 64	# functions, rows, bytes of rows, offsets of index and rows
	.irp function, f, g, h, i
	.quad \function - .
	.long 1, 0		# size; offset of the rows: that of all four
	.endr
	.short 1		# one row
	.byte 0, 0, 0
	.byte 0, 3, 8		# at 0: CFA = rsp+8
	.section .gcc_except_table, "a"
	.fill 64, 1, 0xaa
