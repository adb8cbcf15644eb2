/* x_restore_first_row: g has f's CIE, so restore goes back to nothing said; gas takes g's first row */
	.text
f:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size f, .-f
g:
	.cfi_startproc
	.cfi_offset 6,-24
	nop
	.cfi_offset 6,-16
	nop
	.cfi_restore 6
	ret
	.cfi_endproc
	.size g, .-g
