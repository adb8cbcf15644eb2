#!/usr/bin/env bash
# symbolic 13.9.0 takes two kinds of compact unwind encodings of Mach-O files for other ones. On arm64, whichever pairs of d8 to d15 a
# function has saved, its rules have one pair, d14 and d15: d8 to d13 are left out, and d14 and d15 are read from where d8 and d9 are.
# On x86-64, a function without a frame pointer and with a stack of more than 2040 bytes has the CFA rsp+8 and no saved registers, as if it had
# no frame. There is no error.
#
# Expected: `mach-o/compact_unwind_encoding.h`: UNWIND_ARM64_FRAME_D8_D9_PAIR (0x100) to _D14_D15_PAIR (0x800) are four bits, and the pairs are
# stored in the order of these bits; in UNWIND_X86_64_MODE_STACK_IND the size of the stack is in the `sub` instruction of the function,
# at the offset of bits 16 to 23, and registers are as in UNWIND_X86_64_MODE_STACK_IMMD.
#
# What follows: traces of minidumps end at functions with large buffers, or go on with words of the buffer as return addresses.
#
# Needs: x86-64 Linux, python3 with pip, apt-get with the package lists of Debian 12, dpkg-deb. About 90 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
python3 -m pip install --quiet --target py symbolic==13.9.0 2>pip || { cat pip; exit 1; }
for package in clang-14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libllvm14=1:14.0.6-12 lld-14=1:14.0.6-12 llvm-14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib PYTHONPATH=$work/py
bin=$work/unpacked/usr/lib/llvm-14/bin
cat >arm64.c <<'C'
void callee(void);
double two(double a, double b) { callee(); return a + b; }
double four(double a, double b, double c, double d) { callee(); return a + b * c - d; }
C
cat >x86_64.c <<'C'
int callee(int, long *);
int small(int a) { long b[200]; return callee(a, b) + a; }
int large(int a) { long b[40000]; return callee(a, b) + a; }
C
cat >records.py <<'P'
import sys
from symbolic.cfi import CfiCache
from symbolic.debuginfo import Archive
for item in Archive.open(sys.argv[1]).iter_objects():
    print(CfiCache.from_object(item).open_stream().read().decode(), end='')
P
for arch in arm64 x86_64; do
  "$bin/clang" "--target=$arch-apple-macos11" -O2 -fno-stack-protector $([ $arch = arm64 ] || echo -fomit-frame-pointer) -c $arch.c -o $arch.o
  "$bin/ld64.lld" -arch $arch -platform_version macos 11.0 11.0 -dylib -undefined dynamic_lookup $arch.o -o $arch.dylib
  printf '%s\n' "$arch"
  "$bin/llvm-objdump" -d --no-show-raw-insn $arch.dylib | grep -E '^[0-9a-f]+ <_[a-z0-9]*>|stp.*sp|push|sub.*rsp' | grep -v ' x1[67]'
  "$bin/llvm-objdump" --unwind-info $arch.dylib | grep -oE 'encoding\[[0-9]\]=0x[0-9a-f]{8}' | sed 's/.*=//' >encodings
  python3 records.py $arch.dylib | grep INIT | cut -d' ' -f6- | paste encodings - | tee $arch.records
done
cat >expected-arm64 <<'R'
0x04000100	.cfa: x29 16 + x29: .cfa -16 + ^ .ra: .cfa -8 + ^ d14: .cfa -24 + ^ d15: .cfa -32 + ^
0x04000300	.cfa: x29 16 + x29: .cfa -16 + ^ .ra: .cfa -8 + ^ d14: .cfa -24 + ^ d15: .cfa -32 + ^
R
diff expected-arm64 arm64.records || { echo 'arm64: other records now'; exit 1; }
grep -qE '^0x02.*\$rsp 1616 \+ \.ra' x86_64.records || { echo 'x86-64: another record of small now'; exit 1; }
[ "$(grep -E '^0x03' x86_64.records | cut -f 2)" = '.cfa: $rsp 8 + .ra: .cfa -8 + ^' ] || { echo 'x86-64: another record of large now'; exit 1; }
echo 'as described'
