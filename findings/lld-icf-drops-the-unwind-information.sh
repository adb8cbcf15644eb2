#!/usr/bin/env bash
# ld.lld 14 with --icf=safe folds a function that has an FDE into a function with the same code that has none. The function that is
# left is that of the first object, and `.eh_frame` loses the FDE. An exception through it then ends the program: "terminate
# called". With the objects in the other order the exception is caught. No message says so. (23.1.4 does the same.)
#
# Expected: functions with different unwind information stay two functions, as in gold, mold and ld64.lld with --icf. "safe" promises that
# the program does not notice (ld.lld's manual: "Enable safe identical code folding"). `.eh_frame` is a part of what a function does
# when an exception passes (System V ABI for x86-64, 6.2), and an unwinder knows code without tables only by the missing FDE.
#
# What follows: C that is compiled with -fno-asynchronous-unwind-tables, as in many small libraries, takes exceptions away from C++
# in the same program if a function is the same by chance. Profilers lose the frame too.
#
# Needs: x86-64 Linux, g++, readelf, nm, apt-get with the package lists of Debian 12, dpkg-deb. About 90 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in lld-14=1:14.0.6-12 clang-14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libclang-common-14-dev=1:14.0.6-12 \
  libllvm14=1:14.0.6-12 mold=1.10.1+dfsg-1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
# clang writes the section of address-significant symbols, which --icf=safe needs.
clang=$work/unpacked/usr/lib/llvm-14/bin/clang
mkdir linkers
ln -s "$work/unpacked/usr/lib/llvm-14/bin/lld" linkers/ld.lld
ln -s "$work/unpacked/usr/bin/mold" linkers/ld.mold

cat >c.c <<'C'
int apply_c(int (*f)(int), int x) { return f(x) + 1; }
C
cat >cpp.cpp <<'C'
#include <cstdio>
extern "C" int apply_c(int (*f)(int), int x);
__attribute__((noinline)) int apply_cpp(int (*f)(int), int x) { return f(x) + 1; }
static int thrower(int x) { if (x > 0) throw x; return x; }
int main(int count, char **) {
  apply_c(thrower, -count);
  try { apply_cpp(thrower, count); } catch (int) { puts("caught"); }
}
C
"$clang" -O2 -ffunction-sections -c -fno-asynchronous-unwind-tables c.c -o without.o
"$clang" -O2 -ffunction-sections -c -fasynchronous-unwind-tables c.c -o with.o
"$clang" -x c++ -O2 -fno-inline -ffunction-sections -c cpp.cpp -o cpp.o

# link LINKER OBJECT...: prints how many of the two functions are left, and what the program prints.
link() {
  g++ -B linkers -fuse-ld="$1" -Wl,--icf=safe "${@:2}" -o program
  functions=$(nm program | awk '/apply_c/ { print $1 }' | sort -u | wc -l)
  printf '%s --icf=safe %s: %s, %s\n' "$1" "${*:2}" "$functions" "$( (./program || true) 2>&1 | head -n 1)"
}
{
  for linker in lld mold gold; do
    link "$linker" with.o cpp.o
    link "$linker" without.o cpp.o
    link "$linker" cpp.o without.o
  done
} 2>/dev/null | tee results
cat >expected <<'R'
lld --icf=safe with.o cpp.o: 1, caught
lld --icf=safe without.o cpp.o: 1, terminate called after throwing an instance of 'int'
lld --icf=safe cpp.o without.o: 1, caught
mold --icf=safe with.o cpp.o: 1, caught
mold --icf=safe without.o cpp.o: 2, caught
mold --icf=safe cpp.o without.o: 2, caught
gold --icf=safe with.o cpp.o: 1, caught
gold --icf=safe without.o cpp.o: 2, caught
gold --icf=safe cpp.o without.o: 2, caught
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
