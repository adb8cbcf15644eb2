#!/usr/bin/env bash
# llvm-dwarfdump 14 takes a pointer with DW_EH_PE_textrel for one of no bytes: an FDE with such a start is printed with pc=0...0, and its
# start, length and augmentation are printed as its instructions, among them a rule for XMM13. There is no warning, and the status is
# 0. If the start is not 0, nothing of the section after this FDE is printed. (23.1.4 does the same.)
#
# Expected: 4 bytes with DW_EH_PE_udata4, as for any other base. The low half of the encoding is the format, and gives the size, and
# the high half says what the value is added to (Linux Standard Base 5.0, Core, "DWARF Exception Header Encoding"). readelf and
# eu-readelf print the range and the instructions.
#
# What follows: PHP's JIT uses this encoding in the ELF files that it registers with gdb. Where such a file is printed at
# all, its rows are not those that gdb uses.
#
# The FDE is that of a helper function of PHP 8.2 (`JIT$$assign_cv`). Needs: x86-64 Linux, gcc (for as), readelf, apt-get with the
# package lists of Debian 12, dpkg-deb. About 35 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in llvm-14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib

print() {  # what the tools print of an FDE whose start is `.text` + $1, and of a usual one
  cat >f.s <<A
  .text
  .fill 0x9e + $1, 1, 0x90
second: .cfi_startproc
  ret
  .cfi_endproc
  .section .eh_frame, "a", @progbits
cie: .long cie_end - . - 4, 0
  .byte 1
  .asciz "zR"
  .byte 1, 0x78, 16, 1, 0x23, 0x0c, 7, 8, 0x90, 1
  .balign 8
cie_end:
  .long fde_end - . - 4
id: .long id - cie
  .long $1, 0x9e
  .byte 0
  .byte 0x0e, 8, 0x41, 0x0e, 16
  .balign 8
fde_end:
A
  gcc -c f.s -o f.o
  readelf=$(readelf -wf f.o | grep -c ' FDE ')
  status=0
  LD_LIBRARY_PATH=$libraries unpacked/usr/lib/llvm-14/bin/llvm-dwarfdump --eh-frame f.o >out 2>messages || status=$?
  printf 'start %s: FDEs that readelf prints: %s, llvm-dwarfdump: %s, status %s, messages: "%s"\n' \
    "$1" "$readelf" "$(grep -c ' FDE ' out || true)" "$status" "$(cat messages)"
}
print 0
grep -A 12 'pc=00000000\.\.\.00000000$' out | grep DW_CFA_
[ "$readelf $(grep -c ' FDE ' out) $status" = '2 2 0' ] && [ ! -s messages ] || { echo 'another output now'; exit 1; }
grep -q 'DW_CFA_offset: XMM13' out || { echo 'other instructions now'; exit 1; }
print 2
[ "$readelf $(grep -c ' FDE ' out || true)" = '2 0' ] || { echo 'another output now'; exit 1; }
grep -q 'parsing augmentation data' messages || { echo 'another message now'; exit 1; }
echo 'as described'
