# Functions in mode 5, as LLVM makes it since June 2026. llvm-mc 23.1.4 does not make it yet, so the rows are written out.
	.globl _a, _b, _c
_a:	hint #27 ; pacibsp
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	bl _g
	ldp x29, x30, [sp], #16
	ret
_b:	hint #27
	stp x29, x30, [sp, #-16]!
	mov x29, sp
	bl _g
	ldp x29, x30, [sp], #16
	ret
_c:	nop
	hint #27
	stp x29, x30, [sp, #-32]!
	stp x20, x19, [sp, #16]
	mov x29, sp
	bl _g
	ldp x20, x19, [sp, #16]
	ldp x29, x30, [sp], #32
	ret
Lend:
	.section __LD,__compact_unwind,regular,debug
	.quad _a
	.long _b-_a, 0x05000000
	.quad 0, 0
	.quad _b
	.long _c-_b, 0x05000000
	.quad 0, 0
	.quad _c
	.long Lend-_c, 0x05001001
	.quad 0, 0
	.subsections_via_symbols
