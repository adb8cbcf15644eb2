/* x_eh_frame_by_hand: an FDE as data beside directives, as in libffi 3.8's unix64.S */
	.text
f:
	.cfi_startproc
	push %rax
	.cfi_def_cfa_offset 16
	ret
	.cfi_endproc
	.size f, .-f
g:
	nop
	ret
g_end:
	.section .eh_frame,"a",@progbits
cie:
	.long cie_end-cie_start
cie_start:
	.long 0
	.byte 1
	.asciz "zR"
	.uleb128 1
	.sleb128 -8
	.byte 16
	.uleb128 1
	.byte 0x1b
	.byte 0x0c, 7, 8
	.byte 0x90, 1
	.balign 8
cie_end:
	.long fde_end-fde_start
fde_start:
	.long fde_start-cie
	.long g-.
	.long g_end-g
	.uleb128 0
	.byte 0x41
	.byte 0x0e, 16
	.balign 8
fde_end:
