#!/usr/bin/env bash
# A module that wasmtime 50.0.1 has compiled (`Module.serialize`, a .cwasm file) is an ELF file of type ET_REL with `.text`, `.eh_frame`
# and symbols of all functions, but its `.eh_frame` has no relocations: the PC-relative starts are already resolved for the places where
# the runtime maps the two sections to. By the file's own section addresses, which are all 0, each FDE starts below address 0:
# readelf shows functions at 0xfffffffffffff000, and no FDE belongs to any symbol.
#
# Expected: in a relocatable file a field that refers to another section has a relocation (gABI, "Relocation"; sections have no addresses
# of their own there), as in the objects of all compilers; or, where addresses are final, sections with sh_addr (gABI, "Sections").
#
# What follows: debuggers and converters that take the file for an object of a compiler find no unwind information for any function.
# The right start is sh_offset of `.eh_frame` + offset of the field + value - sh_offset of `.text`, as this script computes it.
#
# Needs: python3 with pip, x86-64 Linux, readelf.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --target py wasmtime==50.0.1 pyelftools==0.33 2>pip || { cat pip; exit 1; }
export PYTHONPATH=$work/py

cat >compile.py <<'PY'
import wasmtime
text = """(module
  (func $f (param i32) (result i32) local.get 0 i32.const 1 i32.add)
  (func (export "g") (param i32) (result i32) local.get 0 call $f call $f))"""
open("m.cwasm", "wb").write(wasmtime.Module(wasmtime.Engine(), text).serialize())
PY
python3 compile.py
readelf -hW m.cwasm 2>/dev/null | grep 'Type:'
readelf -SW m.cwasm 2>/dev/null | grep -E ' \.(text|eh_frame|rela?\.eh_frame)'
readelf -wf m.cwasm 2>/dev/null | grep ' FDE '

cat >starts.py <<'PY'
from elftools.elf.elffile import ELFFile
from elftools.dwarf.callframe import FDE

elf = ELFFile(open("m.cwasm", "rb"))
assert elf["e_type"] == "ET_REL" and not elf.get_section_by_name(".rela.eh_frame"), "there are relocations now"
frame, text = (elf.get_section_by_name(n) for n in (".eh_frame", ".text"))
assert frame["sh_addr"] == text["sh_addr"] == 0, "sections have addresses now"
entries = [e for e in elf.get_dwarf_info().EH_CFI_entries() if isinstance(e, FDE)]
stated = [e["initial_location"] for e in entries]
moved = [(s + frame["sh_offset"] - text["sh_offset"]) % 2**64 for s in stated]
symbols = {s["st_value"]: s.name for s in elf.get_section_by_name(".symtab").iter_symbols() if s["st_info"]["type"] == "STT_FUNC"}
for start, place in zip(stated, moved):
    print(hex(start % 2**64), "->", hex(place), symbols.get(place))
assert all(s < 0 or s >= 2**63 for s in stated), "starts are addresses in the file now"
assert all(p in symbols for p in moved), "the layout is another one now"
PY
python3 starts.py
echo 'as described'
