/* a_restore_first_row: in g, restore 30 makes gas take the return address of the first row for saved
   where the CFI says it is not, and thus keep a function whose frame pointer is saved alone */
	.text
f:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size f, .-f
g:
	.cfi_startproc
	.cfi_offset 30,-24
	nop
	.cfi_offset 29,-16
	nop
	.cfi_restore 30
	.cfi_undefined 30
	ret
	.cfi_endproc
	.size g, .-g
