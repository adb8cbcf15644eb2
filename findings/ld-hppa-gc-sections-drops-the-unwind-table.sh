#!/usr/bin/env bash
# GNU ld 2.40 for PA-RISC with --gc-sections removes the whole `.PARISC.unwind`, also the entries of the functions that are kept. With
# --print-gc-sections it lists it among the unused sections, otherwise there is no message, and the status is 0. `.eh_frame` keeps the FDEs
# of the same functions.
#
# Expected: the entries of the functions that are kept. `.PARISC.unwind` is the unwind table of the architecture ("64-Bit Runtime
# Architecture for PA-RISC 2.0", chapter on stack unwinding): nothing refers to it, and it refers to code, so it lives with the
# functions, as `.eh_frame` does.
#
# What follows: `readelf -u` has nothing to print, and unwinders of this table, as debuggers have them, are left with the
# prologues' instructions. All of gcc's objects have the table, since the assembler writes it by itself from `.CALLINFO`.
#
# Needs: gcc (for its libraries), apt-get with the package lists of Debian 12, dpkg-deb. About 15 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in cpp-12-hppa-linux-gnu=12.2.0-13cross1 binutils-hppa-linux-gnu=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
hppa=$work/unpacked/usr/bin/hppa-linux-gnu
cat >functions.c <<'C'
__attribute__((noinline)) int callee(int a, int *b) { return b[a & 3] + a; }
int start(int a) { int b[4] = { a, 1, 2, 3 }; int r = callee(a, b); return r + callee(b[1], b) + a; }
int unused(int a) { int b[4] = { a, 4, 5, 6 }; int r = callee(a, b); return r * callee(b[1], b) + a; }
C
unpacked/usr/lib/gcc-cross/hppa-linux-gnu/12/cc1 -quiet -O2 -ffunction-sections -fasynchronous-unwind-tables functions.c -o functions.s
"$hppa-as" functions.s -o functions.o
"$hppa-ld" -e start functions.o -o whole
"$hppa-ld" -e start --gc-sections functions.o -o collected 2>messages
"$hppa-ld" -e start --gc-sections --print-gc-sections functions.o -o collected 2>&1 | sed "s,.*removing,removing,"

for file in whole collected; do
  printf '%s: functions %s, FDEs %s, entries of .PARISC.unwind %s\n' $file "$("$hppa-nm" $file | grep -cE ' T (start|callee|unused)$')" \
    "$("$hppa-readelf" -wf $file | grep -c ' FDE ')" "$("$hppa-readelf" -u $file | grep -cE '^<' || true)" | tee -a results
done
"$hppa-readelf" -u collected
cat >expected <<'R'
whole: functions 3, FDEs 3, entries of .PARISC.unwind 3
collected: functions 2, FDEs 2, entries of .PARISC.unwind 0
R
diff expected results || { echo 'another output now'; exit 1; }
[ ! -s messages ] || { echo 'a message now'; exit 1; }
echo 'as described'
