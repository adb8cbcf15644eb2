# As clang's objects for arm64, which have the symbol ltmp0 at the start of each section.
	.text
local:
	.data
	.globl _variable
_variable:
	.quad 0
	.subsections_via_symbols
