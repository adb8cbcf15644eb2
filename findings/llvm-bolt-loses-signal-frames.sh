#!/usr/bin/env bash
# llvm-bolt 16 gives each function that it moves a CIE of its own instead of the function's CIE: the letter S (a signal frame) is lost,
# and the return address column becomes that of the architecture. A trampoline of a signal handler is then a usual frame, and a
# function whose return address is in another column gets the rule "saved at CFA-8". There is no message. (23.1.4 does the same.
# On AArch64 the letter B, the key of signed return addresses, is lost too.)
#
# Expected: the CFI of a moved function says what it said before. S and the column are part of it (Linux Standard Base 5.0, Core,
# "Augmentation String Format"; DWARF 5, 6.4.1, `return_address_register`). For functions that llvm-bolt leaves where they are, both stay.
#
# What follows: behind a signal frame, unwinders look up the byte before the interrupted instruction, which can have another row.
#
# Needs: x86-64 Linux, gcc, readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 90 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in bolt-16=1:16.0.6-15~deb12u1 libllvm16=1:16.0.6-15~deb12u1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-16/lib
cat >f.s <<'A'
  .text
  .globl main, trampoline, other_column
  .type main, @function
  .type trampoline, @function
  .type other_column, @function
main: .cfi_startproc
  xorl %eax, %eax
  ret
  .cfi_endproc
  .size main, . - main
trampoline: .cfi_startproc
  .cfi_signal_frame
  nop
  ret
  .cfi_endproc
  .size trampoline, . - trampoline
other_column: .cfi_startproc
  .cfi_return_column rbx
  nop
  jmp *%rbx
  .cfi_endproc
  .size other_column, . - other_column
  .section .note.GNU-stack, "", @progbits
A
gcc -no-pie -Wl,--emit-relocs f.s -o program
unpacked/usr/lib/llvm-16/bin/llvm-bolt program -o moved --lite=0 >bolt 2>&1 || { cat bolt; exit 1; }

cie_of() {  # the augmentation and return address column of the CIE of the function $2 in the file $1
  start=$(readelf -sW "$1" | awk -v name="$2" '$8 == name { print $2 }')
  readelf -wF "$1" | awk -v start="pc=$start." '
    / CIE / { cie[$1] = $5 " " $8 }
    / FDE / && index($0, start) { sub("cie=", "", $5); print cie[$5] }'
}
for function in main trampoline other_column; do
  before=$(cie_of program "$function")
  after=$(cie_of moved "$function")
  printf '%s: %s before, %s after\n' "$function" "$before" "$after"
  case $function in
    main) expected='"zR" ra=16' ;;
    trampoline) expected='"zRS" ra=16' ;;
    other_column) expected='"zR" ra=3' ;;
  esac
  [ "$before" = "$expected" ] || { echo 'another input'; exit 1; }
  [ "$after" = '"zR" ra=16' ] || { echo 'another output now'; exit 1; }
done
echo 'as described'
