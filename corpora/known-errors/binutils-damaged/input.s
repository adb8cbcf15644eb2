# A header of version 3 that claims 16777216 functions, and one function.
	.text
f:	ret
	.section .sframe, "a", @0x6ffffff4
	.p2align 3
	.short 0xdee2		# magic
	.byte 3, 4		# version; flags
	.byte 3, 0, -8, 0	# AMD64
	.long 0x1000000, 1, 8, 0, 16	# functions, rows, bytes of rows, offsets of index and rows
	.quad f - .
	.long 1, 0
	.short 1
	.byte 0, 0, 0
	.byte 0, 3, 8
