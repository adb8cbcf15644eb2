#!/usr/bin/env bash
# GNU ld 2.40 for Windows x64 with --gc-sections keeps each function that has an entry in `.pdata`, whether it is used or not, with all that
# it calls. gcc writes an entry for each function, leaf functions included, so that -ffunction-sections and --gc-sections remove none of them:
# --print-gc-sections lists no code at all.
#
# Expected: the unused function goes, and its entry too. A RUNTIME_FUNCTION refers to its function, and nothing to the entry ("x64
# exception handling", Microsoft Learn, "struct RUNTIME_FUNCTION"), so it is no use of a function. ld knows that of `.eh_frame`: the same
# source for ELF loses both functions.
#
# What follows: programs are larger than the option promises. Without the `.seh_` directives the same function is removed.
#
# Needs: gcc, ld, nm, apt-get with the package lists of Debian 12, dpkg-deb. About 40 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in gcc-mingw-w64-x86-64-win32=12.2.0-14+deb12u1+25.2+b1 binutils-mingw-w64-x86-64=2.40-2+10.4; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
mingw=$work/unpacked/usr/bin/x86_64-w64-mingw32
cat >functions.c <<'C'
__attribute__((noinline)) int callee(int a, int *b) { return b[a & 3] + a; }
__attribute__((noinline)) int other(int a, int *b) { return b[a & 3] - a; }
int start(int a) { int b[4] = { a, 1, 2, 3 }; int r = callee(a, b); return r + callee(b[1], b) + a; }
int unused(int a) { int b[4] = { a, 4, 5, 6 }; int r = other(a, b); return r * other(b[1], b) + a; }
int unused_leaf(int a) { return a + 1; }
C
unpacked/usr/lib/gcc/x86_64-w64-mingw32/12-win32/cc1 -quiet -O2 -ffunction-sections functions.c -o with.s
sed '/\.seh_/d' with.s >without.s
gcc -O2 -ffunction-sections -fno-pie -c functions.c -o elf.o
for name in with without; do "$mingw-as" $name.s -o $name.o; done
# kept NAME LD NM: the functions that are left
kept() {
  "$2" --gc-sections -e start "$1.o" -o "$1"
  printf '%s: %s\n' "$1" "$("$3" "$1" | sed -nE 's/.* T (callee|other|start|unused|unused_leaf)$/\1/p' | sort | xargs)" | tee -a results
}
kept elf ld nm
kept with "$mingw-ld" "$mingw-nm"
kept without "$mingw-ld" "$mingw-nm"
"$mingw-ld" --gc-sections --print-gc-sections -e start with.o -o with 2>&1 | sed 's/.*removing/removing/' | tee removed
! grep -q '\.text\$' removed || { echo 'code is removed now'; exit 1; }
cat >expected <<'R'
elf: callee start
with: callee other start unused unused_leaf
without: callee start
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
