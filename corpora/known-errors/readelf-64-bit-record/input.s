# One CIE and one FDE with lengths of 64 bits, as the Linux Standard Base defines .eh_frame.
	.text
f:	ret
	.section .eh_frame, "a", @progbits
	.p2align 3
cie:
	.long 0xffffffff
	.quad 2f - 1f
1:	.long 0			# CIE ID: 4 bytes
	.byte 1
	.asciz "zR"
	.uleb128 1
	.sleb128 -8
	.byte 16
	.uleb128 1
	.byte 0x1b
	.byte 0x0c, 7, 8	# CFA = rsp+8
	.byte 0x90, 1		# return address at CFA-8
	.p2align 3
2:
	.long 0xffffffff
	.quad 4f - 3f
3:	.long . - cie		# CIE pointer: 4 bytes
	.long f - .
	.long 1
	.uleb128 0
	.p2align 3
4:	.long 0
