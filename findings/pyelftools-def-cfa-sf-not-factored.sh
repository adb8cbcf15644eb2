#!/usr/bin/env bash
# pyelftools 0.33 does not multiply the offset of `DW_CFA_def_cfa_sf` by the data alignment factor: where the CFA is rsp+16 (operand
# -2, factor -8), its decoded table has rsp-2. It does so for `DW_CFA_def_cfa_offset_sf` and `DW_CFA_offset_extended_sf`.
#
# Expected: "signed and factored" (DWARF 5, 6.4.2.2), as llvm-dwarfdump and readelf print it, and as unwinders read it.
#
# Needs: python3 with pip, gcc (for as), readelf.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --target python pyelftools==0.33 2>pip || { cat pip; exit 1; }

rows() {  # the CFA after a push, by the instruction whose bytes are $1
  printf 'f: .cfi_startproc\npush %%rbx\n.cfi_escape %s\n.cfi_escape 0x11, 3, 2\npop %%rbx\nret\n.cfi_endproc\n' "$1" >f.s
  gcc -c f.s -o f.o
  readelf=$(readelf -wF f.o 2>/dev/null | awk '$1 ~ /0001$/ { print $2, $3 }')
  pyelftools=$(PYTHONPATH=python python3 -c '
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
for entry in ELFFile(open("f.o", "rb")).get_dwarf_info().EH_CFI_entries():
    if isinstance(entry, FDE):
        row = entry.get_decoded().table[-1]
        print("r%d%+d" % (row["cfa"].reg, row["cfa"].offset), "c%+d" % row[3].arg)')
  printf '%s: readelf %s, pyelftools %s\n' "$1" "$readelf" "$pyelftools"
}
rows '0x0c, 7, 16'
[ "$readelf, $pyelftools" = 'rsp+16 c-16, r7+16 c-16' ] || { echo 'def_cfa: another output'; exit 1; }
rows '0x12, 7, 0x7e'
[ "$readelf, $pyelftools" = 'rsp+16 c-16, r7-2 c-16' ] || { echo 'def_cfa_sf: another output now'; exit 1; }
rows '0x13, 0x7e'
[ "$readelf, $pyelftools" = 'rsp+16 c-16, r7+16 c-16' ] || { echo 'def_cfa_offset_sf: another output now'; exit 1; }
echo 'as described'
