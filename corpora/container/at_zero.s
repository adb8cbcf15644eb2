# Firmware linked at address 0, described in .debug_frame alone. Of the functions that nobody calls the
# linker leaves the FDEs, with a start of 0, where `live` lies: `other`, `longer` and `longer_too` differ
# from it, `twin` says the same.
	.cfi_sections .debug_frame
	.macro function name, push
	.section .text.\name, "ax", @progbits
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.rept \push
	push %rax
	.cfi_adjust_cfa_offset 8
	.endr
	add $8 * \push, %rsp
	.cfi_adjust_cfa_offset -8 * \push
	.endm
	.macro end_of_function name
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm
	function longer, 3
	end_of_function longer
	function twin, 1
	end_of_function twin
	function live, 1
	end_of_function live
	function _start, 2
	call live
	end_of_function _start
	function other, 0
	end_of_function other
	function longer_too, 3
	nop
	end_of_function longer_too
