#!/usr/bin/env bash
# ld64.lld 14 folds functions with equal encodings into one entry of `__unwind_info`. If they are the last functions of the image, the
# table ends where the *first* of them ends. Of four small functions in C only the first has unwind information: the sentinel of the
# index is the end of `_a`, and nothing refers to `_b`, `_c` and `_d`. No message says so. (23.1.4 ends the table after `_d`.)
#
# Expected: the sentinel is the end of the code that the table covers, by which a lookup rejects PCs (`mach-o/compact_unwind_encoding.h`,
# `functionOffset` of the first-level index). An entry without a personality is valid up to the next one.
#
# What follows: exceptions through the last functions find no handler, and traces end there. Programs whose last functions differ, or have
# LSDAs, are whole. Who reads images of old linkers finds such gaps, and cannot tell them from code without unwind information.
#
# Needs: x86-64 Linux, python3, apt-get with the package lists of Debian 12, dpkg-deb. About 75 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in lld-14 clang-14 libclang-cpp14 libclang-common-14-dev libllvm14 llvm-14; do
  apt-get download -qq "$package=1:14.0.6-12" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
tools=$work/unpacked/usr/lib/llvm-14/bin

cat >f.c <<'C'
int g(int);
int a(int x) { return g(x) + 1; }
int b(int x) { return g(x) + 2; }
int c(int x) { return g(x) + 3; }
int d(int x) { return g(x) + LAST; }
C
cat >ends.py <<'PY'
import struct, subprocess, sys

tools, image = sys.argv[1:]
output = lambda *command: subprocess.run([f"{tools}/{command[0]}", *command[1:]], check=True, capture_output=True, text=True).stdout
symbols = {name: int(address, 16) for address, kind, name in map(str.split, output("llvm-nm", "--defined-only", image).splitlines()) if kind == "T"}
table = next(line.split() for line in output("llvm-objdump", "--section-headers", image).splitlines() if "__unwind_info" in line)
at, size = int(table[3], 16), int(table[2], 16)  # below the end of __TEXT an address is the offset in the file
bytes_ = open(image, "rb").read()[at : at + size]
index, count = struct.unpack_from("<II", bytes_, 20)
end = struct.unpack_from("<I", bytes_, index + 12 * (count - 1))[0]
print(*(name for name, address in sorted(symbols.items()) if address < end))
PY
check() {  # $1: architecture, $2: what the last function adds, $3: the functions that the table has
  "$tools/clang" -target "$1-apple-macos11" -O1 "-DLAST=$2" -c f.c -o f.o
  "$tools/ld64.lld" -arch "$1" -dylib -undefined dynamic_lookup -platform_version macos 11.0 11.0 f.o -o f.dylib
  found=$(python3 ends.py "$tools" f.dylib)
  printf '%s, d adds %s: the table covers %s\n' "$1" "$2" "$found"
  [ "$found" = "$3" ] || { echo 'another end now'; exit 1; }
}
for arch in x86_64 arm64; do
  check "$arch" 4 '_a'
  # A last function with another encoding.
  check "$arch" '({ int more[9]; g((int)(long)more); })' '_a _b _c _d'
done
echo 'as described'
