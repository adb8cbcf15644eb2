#!/usr/bin/env bash
# gold 2.40 and mold 1.10.1 write distances of more than 2 GiB into `.eh_frame_hdr` modulo 2^32, and say nothing. The functions are in the
# index at addresses 4 GiB or 8 GiB too low. An exception through such a function ends the program ("terminate called"), although
# `.eh_frame` describes it with 8-byte pointers.
#
# Expected: an error, as GNU ld has (".eh_frame_hdr entry overflow"), lld 14 ("PC offset is too large") and mold 3.0 ("address out of range
# of .eh_frame_hdr"); or no index; or an index with 8-byte entries, which lld 23.1.4 writes. The encodings of the index are in its header
# (Linux Standard Base, Core, "Exception Frame Header").
#
# What follows: -mcmodel=large makes code that may lie anywhere, with FDEs that reach it, and only the index does not. Unwinders search
# the index alone, so for them this code has no unwind information.
#
# Needs: x86-64 Linux, g++, GNU ld, gold, readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 70 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in clang-14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libclang-common-14-dev=1:14.0.6-12 lld-14=1:14.0.6-12 \
  libllvm14=1:14.0.6-12 mold=1.10.1+dfsg-1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
tools=$work/unpacked/usr/lib/llvm-14/bin

cat >far.c <<'C'
int far_away(int (*f)(int), int x) { return f(x) + 1; }
C
cat >main.cpp <<'C'
#include <cstdio>
#include <dlfcn.h>
static int thrower(int x) { throw x; }
int main(int, char **arguments) {
  void *library = dlopen(arguments[1], RTLD_NOW);
  if (!library) { puts(dlerror()); return 2; }
  auto far_away = reinterpret_cast<int (*)(int (*)(int), int)>(dlsym(library, "far_away"));
  try { far_away(thrower, 1); } catch (int) { puts("caught"); }
}
C
g++ main.cpp -o main -ldl
"$tools/clang" -mcmodel=large -fPIC -O1 -fasynchronous-unwind-tables -c far.c -o far.o
readelf -rW far.o | grep -q 'R_X86_64_PC64.*\.text' || { echo 'the FDE has another pointer'; exit 1; }

# check NAME EXPECTED COMMAND...: links a library whose code lies 10 GiB after its `.eh_frame`.
check() {
  local found
  if "${@:3}" -shared --eh-frame-hdr --section-start=.eh_frame=0x10000 --section-start=.eh_frame_hdr=0x11000 \
    --section-start=.text=0x280000000 far.o -o far.so 2>messages; then
    (./main ./far.so || true) >output 2>&1
    found="linked, $(wc -l <messages) messages, $(grep -om 1 'terminate called\|caught' output)"
  else
    found=$(grep -om 1 'entry overflow\|PC offset is too large' messages)
  fi
  printf '%s: %s\n' "$1" "$found"
  [ "$found" = "$2" ] || { echo 'another result now'; cat messages; exit 1; }
}
check 'GNU ld' 'entry overflow' ld.bfd
check lld 'PC offset is too large' "$tools/ld.lld"
check gold 'linked, 0 messages, terminate called' ld.gold
check mold 'linked, 0 messages, terminate called' unpacked/usr/bin/mold
# Of gold's index: the table's encoding (4-byte distances from the header), and the distance of the function.
ld.gold -shared --eh-frame-hdr --section-start=.eh_frame=0x10000 --section-start=.eh_frame_hdr=0x11000 \
  --section-start=.text=0x280000000 far.o -o far.so
printf 'gold has far_away at 0x%s, and its index begins with\n' "$(readelf -sW far.so | awk '$8 == "far_away" { print $2; exit }')"
readelf -x .eh_frame_hdr far.so | grep 0x
echo 'as described'
