#!/usr/bin/env bash
# llvm-objdump 14 -u prints the size of a Windows x64 frame of 136 bytes to 512 KiB divided by 8: for `sub rsp, 0x120` it has "UOP_AllocLarge 36".
# Smaller frames and larger ones are printed in bytes. llvm-readobj of the same release prints 288. (19.1.7 does the same.)
#
# Expected: "sub $0x120" or 288. UWOP_ALLOC_LARGE with operation info 0 has the size divided by 8 in the next slot, with info 1 the
# unscaled size in the next two ("x64 exception handling", Microsoft Learn, "Unwind operation code"). GNU objdump prints 0x120.
#
# What follows: numbers of two frames in one listing have different units, and nothing tells which. Who adds up a frame's size from
# the listing has a return address in the middle of the frame.
#
# Needs: gcc (for libraries of LLVM), apt-get with the package lists of Debian 12, dpkg-deb. About 45 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in llvm-14=1:14.0.6-12 libllvm14=1:14.0.6-12 binutils-mingw-w64-x86-64=2.40-2+10.4; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
llvm=$work/unpacked/usr/lib/llvm-14/bin
mingw=$work/unpacked/usr/bin/x86_64-w64-mingw32

# function SIZE: writes a function with a frame of SIZE bytes
function_of() {
  printf '.seh_proc f%s\nf%s:\nsub $%s, %%rsp\n.seh_stackalloc %s\n.seh_endprologue\nnop\nadd $%s, %%rsp\nret\n.seh_endproc\n' \
    "$1" "$1" "$1" "$1" "$1"
}
{ function_of 128; function_of 136; function_of 288; function_of 524280; function_of 524288; } >functions.s
"$mingw-as" functions.s -o functions.o
"$llvm/llvm-objdump" -u functions.o | grep -oE 'UOP_Alloc.*' >objdump
"$llvm/llvm-readobj" --unwind functions.o | grep -oE 'ALLOC_(SMALL|LARGE).*' >readobj
"$mingw-objdump" -p functions.o | grep -oE 'rsp - 0x[0-9a-f]+' >gnu
paste -d'|' readobj gnu objdump
printf '%s\n' 'UOP_AllocSmall 128' 'UOP_AllocLarge 17' 'UOP_AllocLarge 36' 'UOP_AllocLarge 65535' 'UOP_AllocLarge 524288' | diff - objdump ||
  { echo 'llvm-objdump: another output now'; exit 1; }
[ "$(grep -oE '[0-9]+$' readobj | xargs)" = '128 136 288 524280 524288' ] || { echo 'llvm-readobj: another output now'; exit 1; }
echo 'as described'
