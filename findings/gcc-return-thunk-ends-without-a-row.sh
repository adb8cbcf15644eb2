#!/usr/bin/env bash
# gcc 12 for x86-64 with -mfunction-return=thunk makes a thunk, `__x86_return_thunk`, by which all functions return. Its last two instructions
# have one row: CFA = rsp+16 at `lea 8(%rsp), %rsp` and at the `ret` after it, where the CFA is rsp+8. By the row the return address is the word
# above the right one.
#
# Expected: a row CFA = rsp+8 at the `ret`: `lea` drops the word that the thunk's own `call` has pushed, and gcc has written a row for
# that `call`. "The table is exact at each instruction boundary" (gcc's manual, -fasynchronous-unwind-tables); a row holds for each
# instruction up to the next (DWARF 5, 6.4.1). The thunks of indirect calls, which put the target over that word, have right rows.
#
# What follows: every return of the program passes this `ret`, which is slow by intention, so that profilers take many samples there. Each
# has a wrong caller.
#
# Needs: x86-64 Linux, gcc (for as, and its libraries), readelf, objdump, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq cpp-12=12.2.0-14+deb12u1 2>apt || { cat apt; exit 1; }
dpkg-deb -x cpp-12_*.deb unpacked
printf 'int function(int a) { return a + 1; }\n' >function.c
unpacked/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -O2 -mfunction-return=thunk -fcf-protection=none function.c -o function.s 2>cc1 ||
  { cat cc1; exit 1; }
as function.s -o function.o
objdump -d --no-show-raw-insn -j .text.__x86_return_thunk function.o | sed -n '/^ /p' | tee code
readelf -wF function.o | awk '/FDE/ { n++ } n == 2' | tee rows
place() { awk -v text="$1" 'index($0, text) { sub(/:/, "", $1); print $1 }' code | tail -n 1; }
# The CFA of the last row that begins at or before PLACE.
row_of() {
  while read -r start cfa _; do [ $((16#$start)) -gt $((16#$1)) ] || last=$cfa; done < <(grep -E '^[0-9a-f]{16} rsp' rows)
  echo "$last"
}
lea=$(place 'lea '); ret=$(place 'ret')
echo "at $lea (lea): CFA = $(row_of "$lea"); at $ret (ret): CFA = $(row_of "$ret")" | tee result
[ "$(sed 's/at [0-9a-f]* //g' result)" = '(lea): CFA = rsp+16; (ret): CFA = rsp+16' ] || { echo 'other rows now'; exit 1; }
[ $((16#$ret)) -eq $((16#$lea + 5)) ] || { echo 'other code now'; exit 1; }
echo 'as described'
