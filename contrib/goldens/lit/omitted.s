# A function that the format cannot represent is missing in the table, and verify names the reason; its neighbour is
# not affected. With --strict, verify's status is 1.
#
# RUN: %as %s -o %t.o
# RUN: cfi2sframe dump --symbols %t.o | %filecheck %s
# RUN: ! cfi2sframe verify --strict %t.o > %t.verify
# RUN: %filecheck %s --check-prefix=VERIFY < %t.verify

# CHECK-NOT: loaded
# CHECK: other: 1 bytes
# VERIFY: functions: 1 equal, 0 different, 1 missing

loaded:
	.cfi_startproc
	.cfi_escape 0x0f, 5, 0x77, 8, 6, 0x23, 8	# the CFA is *(rsp+8) + 8
	ret
	.cfi_endproc
other:
	.cfi_startproc
	ret
	.cfi_endproc
