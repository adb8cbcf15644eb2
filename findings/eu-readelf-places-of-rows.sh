#!/usr/bin/env bash
# eu-readelf 0.188 prints two other numbers than addresses for the places of rows: "advance_loc 1 to X" has the *file offset* of the
# instruction in `.eh_frame`, and the offset in the function in `.debug_frame`. For the same row of a function at 0x401040 there is "to 0x1041" in
# one section and "to 0x1" in the other; neither is 0x401041. The line says "initial_location: 0x401040" in both.
#
# Expected: DW_CFA_advance_loc adds to the location of the row before, the first of which is initial_location (DWARF 5, 6.4.2.1), so the
# same row has the same location in both sections, as readelf and llvm-dwarfdump print it.
#
# What follows: who compares the rows with a disassembly has to add the difference between address and file offset, or the function's start. In
# a shared object of GNU ld the file offset of code is its address, so that nothing shows there.
#
# Needs: x86-64 Linux, gcc (for as and ld), readelf, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in elfutils libdw1 libelf1 libasm1; do
  apt-get download -qq "$package=0.188-2.1" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
cat >function.s <<'S'
.cfi_sections .eh_frame, .debug_frame
.fill 64
.globl _start
_start: .cfi_startproc
push %rbp
.cfi_def_cfa_offset 16
hlt
.cfi_endproc
S
as function.s -o function.o
ld -Ttext-segment=0x400000 function.o -o program
readelf -wf program | grep -E 'Contents|advance_loc' | tee by-readelf
LD_LIBRARY_PATH=unpacked/usr/lib/x86_64-linux-gnu unpacked/usr/bin/eu-readelf --debug-dump=frames program |
  grep -E "'\.(eh|debug)_frame'|initial_location|advance_loc" | tee by-eu-readelf

[ "$(grep -c 'advance_loc: 1 to 0000000000401041' by-readelf)" = 2 ] || { echo 'readelf: other rows'; exit 1; }
[ "$(grep -oE '(offset: 0x1040|advance_loc.*)' by-eu-readelf | xargs)" = 'offset: 0x1040 advance_loc 1 to 0x1041 advance_loc 1 to 0x1' ] ||
  { echo 'other places now'; exit 1; }
echo 'as described'
