#!/usr/bin/env bash
# Dart 3.13.7's AOT compiler writes one FDE for the whole `.text` of a snapshot: one row for some 8 000 functions, with the CFA at rbp+16
# and rbp saved at CFA-16. In prologues, at each `ret`, and in functions without a frame, rbp is the caller's, and the row leads to the
# caller's caller. There is no `.eh_frame_hdr`, and no program header leads to the `.eh_frame`. (`.bss` is a section with contents.)
#
# Expected: a row holds for each instruction up to the next row (DWARF 5, 6.4.1), so that prologues and epilogues need rows of their own,
# and so does each function. PT_GNU_EH_FRAME is how an unwinder in the process finds the section (Linux Standard Base 5.0, Core, "Program
# Header").
#
# What follows: tools that find functions by FDEs find one; samples in prologues and epilogues lose the caller; unwinders in the process
# have no CFI. The symbol table has all functions.
#
# The snapshot is that of Dart Sass 1.108.2. Needs: npm, tar, readelf, objdump for x86-64. About 5 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent sass-embedded-linux-x64@1.108.2 >npm 2>&1 || { cat npm; exit 1; }
tar xzf ./*.tgz
snapshot=package/dart-sass/src/sass.snapshot

readelf -wf $snapshot | tee cfi
fdes=$(grep -c ' FDE ' cfi)
range=$(grep -oE 'pc=.*' cfi)
text=$(readelf -SW $snapshot | awk '$2 == ".text" || $3 == ".text" { for (i = 1; i < NF; i++) if ($i == "PROGBITS") print $(i + 1), $(i + 3) }')
functions=$(readelf -sW $snapshot | awk '$4 == "FUNC"' | wc -l)
header=$(readelf -lW $snapshot | grep -c GNU_EH_FRAME || true)
printf '.text: %s; functions in .symtab: %s; FDEs: %s; PT_GNU_EH_FRAME: %s\n' "$text" "$functions" "$fdes" "$header"

# Returns whose frame is gone: the instruction before is `pop rbp`.
objdump -d --no-show-raw-insn $snapshot | awk '{ $1 = "" } $2 == "ret" { n++; if (before == " pop %rbp") gone++ }
  $2 == "push" && $3 == "%rbp" { pushes++ } { before = $0 }
  END { print n, "returns,", gone, "of them behind pop %rbp;", pushes, "prologues push %rbp" }' | tee returns

[ "$fdes $header" = '1 0' ] && [ "$functions" -gt 8000 ] || { echo 'other FDEs now'; exit 1; }
set -- $text
[ "$range" = "pc=$1..$(printf '%016x' $((0x$1 + 0x$2)))" ] || { echo 'another range now'; exit 1; }
grep -q 'DW_CFA_def_cfa: r6 (rbp) ofs 16' cfi && ! grep -q 'advance_loc' cfi || { echo 'other rows now'; exit 1; }
[ "$(awk '{ print ($3 > 8000) }' returns)" = 1 ] || { echo 'other returns now'; exit 1; }
echo 'as described'
