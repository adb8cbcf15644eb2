# A regular page with 600 entries: 8 + 600 * 8 bytes.
	.section __TEXT,__unwind_info
	.long 1, 28, 0, 28, 0, 28, 2		# version; common encodings, personalities, index with sentinel
	.long 0x1000, 52, 52			# first function, its page, its LSDA records
	.long 0x1960, 0, 52			# sentinel
	.long 2					# regular
	.short 8, 600
	.set at, 0x1000
	.rept 600
	.long at, 0x02020000
	.set at, at + 4
	.endr
