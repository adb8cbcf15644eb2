#!/usr/bin/env bash
# clang 14 for m68k writes call frame information that leads to no caller. The return address column is 8, the register a0; the rule that
# should be for it is for register 4294967295 (-1); and the CFA has the wrong sign in all rows of a body: in a function with a frame
# pointer it is a6-8 where it is a6+8. Registers d2 to a2, which `movem` saves, have no rules. clang reports nothing. (19.1.7 and 23.1.4 do the
# same.)
#
# Expected: as gcc 12 writes for m68k: the return address column 24 (the program counter), saved at CFA-4, and CFA = a6+8. The CFA is above
# the return address on a stack that grows down, as the rule "at CFA-4" of the CIE says; registers are unsigned numbers by the ABI of
# the machine (DWARF 5, 6.4.1 and 6.4.2), and column -1 is no register of any.
#
# What follows: unwinders take a0 for the return address. readelf says "bad register: r-1".
#
# Needs: gcc (for libraries of gcc's cross compiler), apt-get with the package lists of Debian 12, dpkg-deb. About 100 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in clang-14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libllvm14=1:14.0.6-12 \
  cpp-12-m68k-linux-gnu=12.2.0-13cross1 binutils-m68k-linux-gnu=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
m68k=$work/unpacked/usr/bin/m68k-linux-gnu
cat >function.c <<'C'
int callee(int, int *);
int function(int a) { int b[4]; int r = callee(a, b); return r + callee(b[1], b) + a; }
C
options='-O2 -fno-omit-frame-pointer -fasynchronous-unwind-tables'
unpacked/usr/lib/gcc-cross/m68k-linux-gnu/12/cc1 -quiet $options function.c -o gcc.s
"$m68k-as" gcc.s -o gcc.o
unpacked/usr/lib/llvm-14/bin/clang --target=m68k-linux $options -c function.c -o clang.o
"$m68k-objdump" -d --no-show-raw-insn clang.o | grep -E '%sp@-|%sp,|moveml|linkw|unlk|rts'

for compiler in gcc clang; do
  "$m68k-readelf" -wf "$compiler.o" >"$compiler.records" 2>&1
  "$m68k-readelf" -wF "$compiler.o" 2>&1 | sed -n '/FDE/,$p' >"$compiler.rows"
  printf '%s: ' "$compiler"
  grep -E 'Return address column|cfa-4' "$compiler.records" | tr -s ' \n' ' '
  printf '\n'
  cat "$compiler.rows"
done
grep -q 'column: 24$' gcc.records && grep -q 'DW_CFA_offset: r24 at cfa-4' gcc.records && tail -n 3 gcc.rows | grep -q 'r14+8 ' ||
  { echo 'gcc: other CFI now'; exit 1; }
grep -q 'column: 8$' clang.records && grep -q 'bad register: r-1 at cfa-4' clang.records || { echo 'clang: another CIE now'; exit 1; }
grep -q ' r14-8 ' clang.rows && ! grep -qE ' r1[45]\+(8|[0-9]{2})' clang.rows || { echo 'clang: other rows now'; exit 1; }
echo 'as described'
