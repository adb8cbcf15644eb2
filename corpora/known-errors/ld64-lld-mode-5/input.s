	.globl _a, _b
_a:
	hint #27
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	bl _b
	ldp x29, x30, [sp], #16
	ret
_b:
	hint #27
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	bl _a
	ldp x29, x30, [sp], #16
	ret
Lend:
	.section __LD,__compact_unwind,regular,debug
	.quad _a
	.long _b-_a, 0x05000000
	.quad 0, 0
	.quad _b
	.long Lend-_b, 0x05000000
	.quad 0, 0
	.subsections_via_symbols
