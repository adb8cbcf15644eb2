#!/usr/bin/env bash
# llvm-bolt 16 refuses a whole program if the CFI of one function has DW_CFA_val_offset: "BOLT is unable to proceed because it couldn't
# properly understand this function", "unable to fill CFI", no output, status 1. The same rule written as DW_CFA_val_expression is
# accepted. (23.1.4 does the same.)
#
# Expected: the rule is kept, as those of DW_CFA_register, DW_CFA_expression and DW_CFA_val_expression are. DW_CFA_val_offset is one of
# the instructions of DWARF 5, 6.4.2.3, and an assembler's `.cfi_val_offset` writes it.
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
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-16/lib

bolt() {  # moves a program with a function that has the directive $1, for: the caller's rsp is the CFA
  cat >f.s <<A
  .text
  .globl main, function
  .type main, @function
  .type function, @function
main: .cfi_startproc
  xorl %eax, %eax
  ret
  .cfi_endproc
  .size main, . - main
function: .cfi_startproc
  nop
  $1
  nop
  ret
  .cfi_endproc
  .size function, . - function
  .section .note.GNU-stack, "", @progbits
A
  gcc -no-pie -Wl,--emit-relocs f.s -o program
  status=0
  rm -f moved
  LD_LIBRARY_PATH=$libraries unpacked/usr/lib/llvm-16/bin/llvm-bolt program -o moved --lite=0 >messages 2>&1 || status=$?
  printf '%s: %s, status %s, %s\n' "$1" "$(readelf -wf program | grep -o 'DW_CFA_val_.*')" "$status" \
    "$(grep -o 'unable to fill CFI' messages || true)"
}
bolt '.cfi_escape 0x16, 7, 2, 0x77, 8'
[ "$status" = 0 ] && [ -s moved ] || { echo 'val_expression: another output'; exit 1; }
bolt '.cfi_val_offset rsp, 0'
[ "$status" = 1 ] && [ ! -e moved ] && grep -q 'unable to fill CFI' messages || { echo 'another output now'; exit 1; }
echo 'as described'
