#!/usr/bin/env bash
# gcc 12 for ARC writes wrong rows for epilogues of functions with a frame pointer that save further registers: from the instruction that restores
# fp on, the CFA is 4 bytes too low for each of these registers. The code loads blink, the return address, from sp+4, and the row
# there has it at CFA-4 with CFA = sp+4, which is sp+0, where r13 is. At the end the CFA is below the stack pointer (sp-4 with one register).
# All functions that call alloca or have arrays of variable length have such a frame at any -O.
#
# Expected: CFA = sp+8 where blink is loaded from sp+4, as the prologue's rows and code have it; without a frame pointer gcc writes
# that. "The table is exact at each instruction boundary" (gcc's manual, -fasynchronous-unwind-tables); a row holds for each instruction up
# to the next (DWARF 5, 6.4.1).
#
# What follows: samples of a profiler and signals in epilogues have a wrong caller.
#
# Needs: gcc (for its libraries), apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq cpp-12-arc-linux-gnu=12.2.0-13cross1 2>apt || { cat apt; exit 1; }
dpkg-deb -x cpp-12-arc-linux-gnu_*.deb unpacked
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
cat >array.c <<'C'
void callee(int, int *);
int other(int);
int function(int a) { int b[4]; callee(a, b); return other(b[1]) + a; }
C
cat >variable.c <<'C'
void callee(int, char *);
int function(int a) { char b[a]; callee(a, b); return b[1] + a; }
C

# compare SOURCE OPTION...: where the code loads blink from, and where the row of that instruction has it; and the last CFA
compare() {
  unpacked/usr/lib/gcc-cross/arc-linux-gnu/12/cc1 -quiet "${@:2}" -fasynchronous-unwind-tables "$1" -o function.s
  result=$(awk '
    /cfi_def_cfa_offset/ { cfa = $2 } /cfi_def_cfa / { cfa = $3 } /cfi_offset 31,/ { rule = $3 }
    /^\tld\tblink,\[sp,/ { split($2, part, /[,\]]/); code = part[3]; row = cfa + rule }
    /^\tpop_s\tblink/ { code = 0; row = cfa + rule }
    END { print "blink is at sp+" code ", by its row at sp+" row "; CFA at the end: sp+" cfa }' function.s)
  printf '%s %s: %s\n' "$1" "${*:2}" "$result"
}
compare array.c -O2
[ "$result" = 'blink is at sp+4, by its row at sp+4; CFA at the end: sp+0' ] || { echo 'other rows now'; exit 1; }
compare array.c -O2 -fno-omit-frame-pointer
[ "$result" = 'blink is at sp+4, by its row at sp+0; CFA at the end: sp+-4' ] || { echo 'other rows now'; exit 1; }
sed -n '/st.a.fp/,/mov_s.fp,sp/p; /def_cfa_register 28/,/cfi_endproc/p' function.s | grep -v '^\.L'
compare variable.c -O2
[ "$result" = 'blink is at sp+8, by its row at sp+0; CFA at the end: sp+-8' ] || { echo 'other rows now'; exit 1; }
echo 'as described'
