#!/usr/bin/env bash
# pyelftools 0.33 cannot read any DWARF or CFI of a program that was linked with --emit-relocs: `get_dwarf_info()` raises ELFParseError,
# "expected 4, found 0". By default it applies the relocations that the linker has kept, although the linker has applied them already,
# and takes their offsets for offsets in the section.
#
# Expected: the FDEs of the same program without --emit-relocs. In an executable file or shared object, `r_offset` is a virtual address
# (gABI, "Relocation"). `.rela.eh_frame` is the only such section of DWARF data that has an address, so it is the one that fails.
# readelf, eu-readelf and llvm-dwarfdump print the same FDEs for both files.
#
# What follows: programs that are built for llvm-bolt have these relocations. `get_dwarf_info(relocate_dwarf_sections=False)` is right for
# all linked files, and wrong for objects. angr's loader, cle 9.2.140, has no function hints for such a program, with load_debug_info too.
#
# Needs: x86-64 Linux, gcc with GNU ld, readelf, python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py pyelftools==0.33 2>pip || { cat pip; exit 1; }
printf 'int main(void) { return 0; }\n' >main.c
cat >fdes.py <<'P'
import sys
from elftools.common.exceptions import ELFParseError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
file = ELFFile(open(sys.argv[1], 'rb'))
for relocate in True, False:
    try:
        entries = file.get_dwarf_info(relocate_dwarf_sections=relocate).EH_CFI_entries()
        print(sum(isinstance(entry, FDE) for entry in entries))
    except ELFParseError as error:
        print('ELFParseError:', error)
P
check() {  # $1: a program, $2: what is expected of the default
  readelf=$(readelf -wf "$1" | grep -c ' FDE ')
  PYTHONPATH=py python3 fdes.py "$1" >out
  printf '%s: FDEs by readelf: %s; by pyelftools: %s; with relocate_dwarf_sections=False: %s\n' \
    "$1" "$readelf" "$(sed -n 1p out)" "$(sed -n 2p out)"
  [ "$(sed -n 1p out)" = "${2:-$readelf}" ] && [ "$(sed -n 2p out)" = "$readelf" ] || { echo 'another output now'; exit 1; }
}
gcc main.c -o as-usual
gcc -Wl,--emit-relocs main.c -o emit-relocs
check as-usual ''
check emit-relocs 'ELFParseError: expected 4, found 0'
echo 'as described'
