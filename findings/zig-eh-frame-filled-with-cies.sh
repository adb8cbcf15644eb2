#!/usr/bin/env bash
# Zig 0.17.0's own linker, the default of a Debug build for x86-64 Linux, leaves room in `.eh_frame` and fills it with CIEs that no FDE
# has: version 1, no augmentation, alignment factors 1, return address column 0, and up to 15 KB of DW_CFA_nop. The `.eh_frame_hdr`
# of a program with thousands of FDEs is 8 bytes long: number and search table are omitted, and PT_GNU_EH_FRAME leads to it.
#
# Expected: padding only within a record, as the DW_CFA_nop at its end (DWARF 5, 6.4.1), and the search table that other linkers make.
# Both are valid: a CIE needs no FDE, and `fde_count_enc` and `table_enc` may be DW_EH_PE_omit (Linux Standard Base 5.0, Core, "The
# .eh_frame_hdr section").
#
# What follows: unwinders search all FDEs one by one, and tools that find functions by the table find none. A tool that lists CIEs finds some
# whose "return address" is the register rax, without a rule for the CFA.
#
# Needs: x86-64 Linux, python3 with pip. About 100 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py ziglang==0.17.0 pyelftools==0.33 2>pip || { cat pip; exit 1; }
export PYTHONPATH=$work/py ZIG_GLOBAL_CACHE_DIR=$work/cache ZIG_LOCAL_CACHE_DIR=$work/cache
cat >program.zig <<'Z'
const std = @import("std");
pub fn main() void {
    std.process.exit(3);
}
Z
printf 'zig %s\n' "$(python3 -m ziglang version)"
python3 -m ziglang build-exe -target x86_64-linux -femit-bin=program program.zig
status=0
./program || status=$?
[ "$status" = 3 ]

cat >records.py <<'PY'
from elftools.dwarf.callframe import CIE, FDE
from elftools.elf.elffile import ELFFile

elf = ELFFile(open("program", "rb"))
records = elf.get_dwarf_info().EH_CFI_entries()
fdes = [e for e in records if isinstance(e, FDE)]
used = {e.cie.offset for e in fdes}
unused = [e for e in records if isinstance(e, CIE) and e.offset not in used]
print(f"{len(fdes)} FDEs of {len(used)} CIEs")
for e in unused:
    codes = {i.opcode for i in e.instructions}
    print(f"CIE {e.offset:#x}: {e['length'] + 4} bytes, augmentation {e['augmentation']}, factors {e['code_alignment_factor']} and",
          f"{e['data_alignment_factor']}, column {e['return_address_register']}, opcodes {codes}")
table = elf.get_section_by_name(".eh_frame_hdr").data()
segment = next(s for s in elf.iter_segments() if s["p_type"] == "PT_GNU_EH_FRAME")
print(f".eh_frame_hdr: {len(table)} bytes, fde_count_enc {table[2]:#x}, table_enc {table[3]:#x}; segment: {segment['p_filesz']} bytes")
fillers = [e for e in unused if e["augmentation"] == b"" and not any(i.opcode for i in e.instructions)]
assert len(fdes) > 1000 and fillers and max(e["length"] for e in fillers) > 1000, "no such CIEs now"
assert len(table) == segment["p_filesz"] == 8 and table[2] == table[3] == 0xFF, "a search table now"
PY
python3 records.py
echo 'as described'
