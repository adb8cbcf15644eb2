#!/usr/bin/env bash
# gcc 12 for m68k writes no rows for epilogues, with -fasynchronous-unwind-tables too: behind the instruction that drops the frame, rows
# are still those of the body. At the `rts` of the function here the CFA is sp+36 and should be sp+4; with -fno-omit-frame-pointer it is
# a6+8, although `unlk a6` has put the caller's a6 back. (gcc 12 for Xtensa, lx106, and gcc 5.4 for AVR do the same.)
#
# Expected: "The table is exact at each instruction boundary, so it can be used for stack unwinding from asynchronous events" (gcc's
# manual, -fasynchronous-unwind-tables). gcc 12 for alpha, arc, powerpc64, riscv64, sh4 and x86-64 has rows for the same epilogue; the
# prologue's rows and those of pushed arguments are there for m68k too.
#
# What follows: samples of a profiler and signals in epilogues have a wrong caller.
#
# Needs: gcc (for its libraries), apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in cpp-12-m68k-linux-gnu=12.2.0-13cross1 binutils-m68k-linux-gnu=2.40-2 \
  cpp-12-sh4-linux-gnu=12.2.0-13cross1 binutils-sh4-linux-gnu=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
cat >function.c <<'C'
int callee(int, int *);
int function(int a) { int b[4]; int r = callee(a, b); return r + callee(b[1], b) + a; }
C

# rows TARGET OPTION...: the last row that begins at or before the return
rows() {
  prefix=$work/unpacked/usr/bin/$1-linux-gnu
  unpacked/usr/lib/gcc-cross/"$1"-linux-gnu/12/cc1 -quiet "${@:2}" -fasynchronous-unwind-tables function.c -o function.s
  "$prefix-as" function.s -o function.o
  at=$("$prefix-objdump" -d --no-show-raw-insn function.o | awk '$2 == "rts" { sub(":", "", $1); print $1 }')
  row=$("$prefix-readelf" -wF function.o | awk -v at="$(printf '%08x' "0x$at")" '/ FDE / { f = 1 } f && /^0/ && $1 <= at { r = $2 } END { print r }')
  printf '%s %s: rts at 0x%s, CFA of its row: %s\n' "$1" "${*:2}" "$at" "$row"
  "$prefix-objdump" -d --no-show-raw-insn function.o | tail -n 5
}
rows m68k -O2
[ "$row" = 'r15+36' ] || { echo 'another row now'; exit 1; }
rows m68k -O2 -fno-omit-frame-pointer
[ "$row" = 'r14+8' ] || { echo 'another row now'; exit 1; }
rows sh4 -O2
[ "$row" = 'r15+4' ] || { echo 'sh4: another row now'; exit 1; }
echo 'as described'
