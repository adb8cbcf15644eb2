	.globl variable
	.data
variable:
	.quad 0
