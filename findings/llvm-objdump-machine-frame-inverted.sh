#!/usr/bin/env bash
# llvm-objdump 14 -u exchanges the two kinds of Windows x64 machine frames: a handler that is entered with an error code is printed as
# "UOP_PushMachFrame w/o error code", and one that is entered without as "w error code". llvm-readobj of the same release has both right.
# (19.1.7 does the same.)
#
# Expected: UWOP_PUSH_MACHFRAME with operation info 0 has no error code, and with info 1 the error code lies below the return address
# ("x64 exception handling", Microsoft Learn, "Unwind operation code"). `.seh_pushframe` writes 0, and with the word "code" 1. GNU objdump
# prints "ErrorCode" for 1.
#
# What follows: the places of the return address and of the old stack pointer, as taken from the listing, are wrong by 8.
#
# The same directive has two spellings: llvm-mc 14 wants `@code`, and GNU as 2.40 `code`; each reports the other as an error.
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
cat >gas.s <<'S2'
.seh_proc divide_error
divide_error:
.seh_pushframe
.seh_endprologue
iretq
.seh_endproc
.seh_proc page_fault
page_fault:
.seh_pushframe code
.seh_endprologue
add $8, %rsp
iretq
.seh_endproc
S2
sed 's/pushframe code/pushframe @code/' gas.s >llvm.s
"$mingw-as" gas.s -o gas.o
"$llvm/llvm-mc" -triple=x86_64-windows-gnu -filetype=obj llvm.s -o llvm.o
if "$mingw-as" llvm.s -o x.o 2>messages || "$llvm/llvm-mc" -triple=x86_64-windows-gnu -filetype=obj gas.s -o x.o 2>messages; then
  echo 'an assembler knows both spellings now'
  exit 1
fi
for object in gas llvm; do
  "$llvm/llvm-objdump" -u $object.o | grep -oE 'UOP_.*' >objdump
  "$llvm/llvm-readobj" --unwind $object.o | grep -oE 'PUSH_.*' >readobj
  "$mingw-objdump" -p $object.o | grep -oE 'interrupt entry.*' >gnu
  echo "-- $object.o: llvm-readobj, GNU objdump, llvm-objdump"
  paste -d'|' readobj gnu objdump
  [ "$(cat readobj)" = $'PUSH_MACHFRAME errcode=no\nPUSH_MACHFRAME errcode=yes' ] || { echo 'llvm-readobj: another output now'; exit 1; }
  [ "$(cat objdump)" = $'UOP_PushMachFrame w error code\nUOP_PushMachFrame w/o error code' ] || { echo 'llvm-objdump: another output now'; exit 1; }
done
echo 'as described'
