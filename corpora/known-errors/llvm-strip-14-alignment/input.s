	.globl _start
_start:
	mov $60, %eax
	xor %edi, %edi
	syscall
	.section .moved, "a"
	.asciz "a segment of its own, which starts with the name of the interpreter"
	.section .interp, "a"
	.asciz "/lib64/ld-linux-x86-64.so.2"
