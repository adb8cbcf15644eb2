#!/usr/bin/env bash
# llvm-dwarfdump 14 prints nothing of an `.eh_frame` from the first FDE on whose augmentation data is longer than the pointer that the
# CIE's letters announce: "parsing augmentation data at 0x0 failed". Functions with the usual FDEs after it are missing too. (23.1.4
# does the same.)
#
# Expected: with `z`, an FDE has the length of its augmentation data, so that readers skip what they do not know (Linux Standard
# Base 5.0, "Exception Frames": "Augmentation Length", "Augmentation Data"). Nothing says that the data ends with the last known
# pointer. readelf prints all functions, and libgcc, both libunwinds and gdb walk through them.
#
# Needs: x86-64 Linux, apt-get with the package lists of Debian 12, dpkg-deb, gcc (for as), readelf.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in llvm-14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib

count() {  # FDEs of two functions, of which the first has $1 bytes of augmentation data, and no letter for them
  cat >f.s <<A
  .text
first: ret
first_end:
second: .cfi_startproc
  ret
  .cfi_endproc
  .section .eh_frame, "a", @progbits
cie: .long cie_end - . - 4, 0
  .byte 1
  .asciz "zR"
  .byte 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1
  .balign 8
cie_end:
  .long fde_end - . - 4
id: .long id - cie
  .long first - ., first_end - first
  .byte $1
  .fill $1
  .balign 8
fde_end:
A
  gcc -c f.s -o f.o
  others=$(readelf -wf f.o | grep -c ' FDE ')
  fdes=$(unpacked/usr/lib/llvm-14/bin/llvm-dwarfdump --eh-frame f.o 2>messages | grep -c ' FDE ' || true)
  printf '%s bytes: FDEs that llvm-dwarfdump prints: %s, message: "%s"; readelf: %s\n' "$1" "$fdes" "$(head -1 messages)" "$others"
}
count 0
[ "$fdes $others" = '2 2' ] || { echo 'no augmentation data: another output'; exit 1; }
count 4
[ "$fdes $others" = '0 2' ] && grep -q 'parsing augmentation data' messages || { echo '4 bytes: another output now'; exit 1; }
echo 'as described'
