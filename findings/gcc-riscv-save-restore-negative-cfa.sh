#!/usr/bin/env bash
# gcc 12 for RISC-V with -msave-restore writes rows for an epilogue in which the CFA is too low by the area that `__riscv_save_N` has made:
# before the jump to `__riscv_restore_2` the CFA is sp+0, where it is sp+32, and after the jump sp-32, below the stack pointer. It is so for
# each function that has a frame besides that area. Without one, and in prologues, the rows are right.
#
# Expected: CFA = sp+32 up to the jump, as the prologue has it between `__riscv_save_2` and the second `addi`: the jump restores from there.
# "The table is exact at each instruction boundary" (gcc's manual, -fasynchronous-unwind-tables); a row holds for each instruction up to
# the next (DWARF 5, 6.4.1). clang 22 writes 32 for the same source.
#
# What follows: at the jump, which is two instructions, ra is read from below the area that holds it, so the caller is wrong.
#
# Needs: gcc (for its libraries), apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq cpp-12-riscv64-linux-gnu=12.2.0-13cross1 2>apt || { cat apt; exit 1; }
dpkg-deb -x cpp-12-riscv64-linux-gnu_*.deb unpacked
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
cat >array.c <<'C'
int callee(int, char *);
int function(int a) { char b[32]; int r = callee(a, b); return r + callee(b[1], b) + a; }
C
cat >none.c <<'C'
int callee(int);
int function(int a) { int r = callee(a); return r + callee(r) + a; }
C

# cfa SOURCE: the CFA after the library's routine has saved, at the jump to the one that restores, and after it
cfa() {
  unpacked/usr/lib/gcc-cross/riscv64-linux-gnu/12/cc1 -quiet -march=rv64imac -mabi=lp64 -Os -msave-restore \
    -fasynchronous-unwind-tables "$1" -o function.s
  result=$(awk '
    /__riscv_save/ { saved = 1 } /cfi_def_cfa_offset/ { cfa = $2 } /cfi_def_cfa / { cfa = $3 }
    saved == 1 && /^\t(addi|mv)/ { start = cfa; saved = 2 } /__riscv_restore/ { jump = cfa }
    END { print "saved: sp+" start ", at the jump: sp+" jump ", after it: sp+" cfa }' function.s)
  echo "$1: $result"
}
cfa none.c
[ "$result" = 'saved: sp+32, at the jump: sp+32, after it: sp+0' ] || { echo 'other rows now'; exit 1; }
cfa array.c
[ "$result" = 'saved: sp+32, at the jump: sp+0, after it: sp+-32' ] || { echo 'other rows now'; exit 1; }
sed -n '/__riscv_save/,/def_cfa_offset 80/p; /addi.sp,sp,48/,/endproc/p' function.s
echo 'as described'
