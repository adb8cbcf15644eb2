#!/usr/bin/env bash
# dsymutil of LLVM 14 copies the contents of `__TEXT,__eh_frame` into a dSYM, but not those of `__TEXT,__unwind_info`, which is the
# index to it. Like `__text` it keeps its address and size, with the file offset 0 and the type of a section that has contents. So its
# contents are the start of the Mach-O header, and `llvm-objdump --unwind-info` of the dSYM prints "Version: 0xfeedfacf".
#
# Expected: both or none. On arm64 a function that has a compact encoding has no FDE, and FDEs are found by `__unwind_info`
# (`mach-o/compact_unwind_encoding.h`), so the half that is copied covers only functions in DWARF mode. A section whose bytes are not in
# the file has type S_ZEROFILL (`mach-o/loader.h`), by which tools know not to read it.
#
# What follows: a symbol server that takes CFI from dSYMs gets the CFI of the few functions in DWARF mode. A reader of
# `__unwind_info` has to look at the file's type (MH_DSYM) or at the offset before it looks at the version.
#
# Needs: apt-get with the package lists of Debian 12, dpkg-deb. About 35 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in llvm-14 lld-14 libllvm14; do
  apt-get download -qq "$package=1:14.0.6-12" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
tools=$work/unpacked/usr/lib/llvm-14/bin

cat >f.s <<'S'
  .globl _compact
_compact:                       ; mode FRAME: a row, and no FDE
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  mov x29, sp
  .cfi_def_cfa w29, 16
  .cfi_offset w30, -8
  .cfi_offset w29, -16
  ldp x29, x30, [sp], #16
  ret
  .cfi_endproc
  .globl _dwarf
_dwarf:                         ; no encoding: an FDE
  .cfi_startproc
  mov x9, x30
  .cfi_register w30, w9
  ret x9
  .cfi_endproc
  .subsections_via_symbols
S
"$tools/llvm-mc" -triple arm64-apple-macos11 -g -filetype=obj f.s -o f.o
"$tools/lld" -flavor darwin -arch arm64 -platform_version macos 11 11 -dylib f.o -o f.dylib
"$tools/dsymutil" f.dylib -o f.dSYM 2>/dev/null
dsym=f.dSYM/Contents/Resources/DWARF/f.dylib

section() {  # the line $3 of section $2 of file $1
  "$tools/llvm-objdump" --macho --private-headers "$1" | awk -v name="$2" -v field="$3" \
    '$1 == "sectname" { inside = $2 == name } inside && $1 == field { print $2 }'
}
for file in f.dylib "$dsym"; do
  for name in __unwind_info __eh_frame; do
    printf '%s %s: size %s, offset %s, type %s\n' "${file##*.dSYM/Contents/Resources/}" "$name" \
      "$(section "$file" "$name" size)" "$(section "$file" "$name" offset)" "$(section "$file" "$name" type)"
  done
done
"$tools/llvm-objdump" --macho --unwind-info "$dsym" 2>&1 | tee unwind-info
[ "$(section f.dylib __unwind_info size)" = "$(section "$dsym" __unwind_info size)" ] || { echo 'another size now'; exit 1; }
[ "$(section "$dsym" __unwind_info offset)" = 0 ] && [ "$(section "$dsym" __eh_frame offset)" != 0 ] || { echo 'other offsets now'; exit 1; }
[ "$(section "$dsym" __unwind_info type)" = S_REGULAR ] && grep -q 0xfeedfacf unwind-info || { echo 'another type now'; exit 1; }
echo 'as described'
