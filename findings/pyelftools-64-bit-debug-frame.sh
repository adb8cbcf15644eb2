#!/usr/bin/env bash
# pyelftools 0.33 cannot read a `.debug_frame` in the 64-bit DWARF format: `CFI_entries()` raises OverflowError. It looks for the id, by which
# a CIE differs from an FDE, right after the first four bytes, where the rest of the length is, and takes the CIE for an FDE. In the 32-bit
# format the same records are read.
#
# Expected: in the 64-bit format the length has 12 bytes, 0xffffffff and an 8-byte number, and the id comes after it (DWARF 5, 6.4.1 and
# 7.4). readelf, eu-readelf and llvm-dwarfdump print the records. clang -gdwarf64 writes them.
#
# What follows: tools that use pyelftools have no rows of such files, and end if they do not catch the exception. `.debug_info` in the
# 64-bit format is read.
#
# Needs: x86-64 Linux, gcc (for as), readelf, eu-readelf, python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py pyelftools==0.33 2>pip || { cat pip; exit 1; }

# records BITS: a CIE and an FDE of a function of two instructions
records() {
  [ "$1" = 64 ] && escape='.long 0xffffffff' word=.quad id=0xffffffffffffffff || escape='' word=.long id=0xffffffff
  cat <<S
.text
function: nop
ret
.section .debug_frame,"",@progbits
cie: $escape
$word cie_end - cie_start
cie_start: $word $id
.byte 4                        # version
.asciz ""
.byte 8, 0                     # sizes of addresses and segment selectors
.uleb128 1
.sleb128 -8
.uleb128 16
.byte 0x0c, 7, 8               # DW_CFA_def_cfa: rsp+8
.byte 0x90, 1                  # DW_CFA_offset: the return address at CFA-8
.balign 8
cie_end:
$escape
$word fde_end - fde_start
fde_start: $word cie
.quad function, 2
.balign 8
fde_end:
S
}
cat >entries.py <<'P'
import sys
from elftools.elf.elffile import ELFFile
try:
    entries = ELFFile(open(sys.argv[1], 'rb')).get_dwarf_info().CFI_entries()
    print(' '.join(type(entry).__name__ for entry in entries))
except OverflowError as error:
    print('OverflowError:', error)
P
for bits in 32 64; do
  records $bits >r$bits.s
  as r$bits.s -o r$bits.o
  ld -shared r$bits.o -o r$bits.so
  printf '%s bits: readelf: %s; eu-readelf: %s; pyelftools: %s\n' $bits \
    "$(readelf -wf r$bits.so 2>messages | grep -oE ' (CIE|FDE)( |$)' | xargs)" \
    "$(eu-readelf --debug-dump=frames r$bits.so 2>>messages | grep -oE '\] (CIE|FDE) ' | tr -d ']' | xargs)" \
    "$(PYTHONPATH=py python3 entries.py r$bits.so)" | tee -a output
  [ ! -s messages ] || { cat messages; exit 1; }
done
cat >expected <<'R'
32 bits: readelf: CIE FDE; eu-readelf: CIE FDE; pyelftools: CIE FDE
64 bits: readelf: CIE FDE; eu-readelf: CIE FDE; pyelftools: OverflowError: Python int too large to convert to C ssize_t
R
diff expected output || { echo 'another output now'; exit 1; }
echo 'as described'
