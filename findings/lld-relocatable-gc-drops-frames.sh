#!/usr/bin/env bash
# ld.lld 14 with -r --gc-sections writes an object without `.eh_frame`: the functions that are kept are there, and their unwind information is
# not. There is no message, and the status is 0. A program of that object ends at an exception that has to pass them ("terminate called").
# Without -r, or without --gc-sections, ld.lld keeps the FDEs. (23.1.4 does the same.)
#
# Expected: the FDEs of the functions that are kept, as GNU ld writes them for the same options. `.eh_frame` is what unwinders need of a function
# (System V ABI, AMD64, "EH_FRAME sections"), and no section refers to it, so for a collection of garbage it lives with the
# functions that it refers to.
#
# What follows: libraries that are reduced to one object by -r --gc-sections take exceptions away from programs.
#
# Needs: x86-64 Linux, g++, readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 35 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in lld-14=1:14.0.6-12 libllvm14=1:14.0.6-12 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
ln -s "$work/unpacked/usr/lib/llvm-14/bin/lld" ld.lld
ln -s "$work/unpacked/usr/bin/x86_64-linux-gnu-ld.bfd" ld.bfd
cat >library.cpp <<'C'
void callback(int);
__attribute__((noinline)) int used(int a) { callback(a); return a + 1; }
int unused(int a) { callback(a + 1); return a + 2; }
C
cat >main.cpp <<'C'
#include <cstdio>
int used(int);
void callback(int a) { if (a) throw a; }
int main(int count, char **) { try { used(count); } catch (int) { puts("caught"); } }
C
g++ -O1 -ffunction-sections -c library.cpp
g++ -O1 -c main.cpp

# reduce LINKER OPTION...: prints what is left in the object, and what the program does
reduce() {
  LD_LIBRARY_PATH=$libraries ./ld."$1" -r "${@:2}" library.o -o reduced.o
  g++ main.o reduced.o -o program
  printf '%s -r %s: functions: %s; FDEs: %s; %s\n' "$1" "${*:2}" "$(nm -C reduced.o | grep -c ' T ')" \
    "$(readelf -wf reduced.o | grep -c ' FDE ' || true)" "$( (./program || true) 2>&1 | head -n 1)"
}
gc='--gc-sections -u _Z4usedi -e _Z4usedi'
{
  reduce bfd $gc
  reduce lld
  reduce lld $gc
} 2>/dev/null | tee results
cat >expected <<R
bfd -r $gc: functions: 1; FDEs: 1; caught
lld -r : functions: 2; FDEs: 2; caught
lld -r $gc: functions: 1; FDEs: 0; terminate called after throwing an instance of 'int'
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
