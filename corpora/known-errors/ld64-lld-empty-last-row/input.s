	.globl _f, _g
_f:
	pushq %rbp
	movq %rsp, %rbp
	callq _g
	popq %rbp
	retq
_g:
	pushq %rax
	callq _f
	popq %rax
	retq
	.section __LD,__compact_unwind,regular,debug
	.quad _f
	.long _g-_f, 0x01000000
	.quad 0, 0
	.quad _g
	.long 0, 0x02020000
	.quad 0, 0
	.subsections_via_symbols
