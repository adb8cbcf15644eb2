# A function that the format cannot represent is missing in the table, and verify names the reason; its neighbour is
# not affected. The table is incomplete, for which verify's status is 1.
#
# RUN: %as %s -o %t.o
# RUN: cfi2sframe dump --symbols %t.o | %filecheck %s
# RUN: ! cfi2sframe verify %t.o > %t.verify
# RUN: %filecheck %s --check-prefix=VERIFY < %t.verify

# CHECK-NOT: stack
# CHECK: other: 1 bytes
# VERIFY: functions: 1 equal, 0 different, 1 missing

stack:
	.cfi_startproc
	.cfi_undefined %rsp
	ret
	.cfi_endproc
other:
	.cfi_startproc
	ret
	.cfi_endproc
