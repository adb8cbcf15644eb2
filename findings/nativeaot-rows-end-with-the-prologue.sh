#!/usr/bin/env bash
# .NET's NativeAOT compiler (ilc 11.0.0-rc.2, in the library of geopack-2008 2.5.0) writes an FDE for each managed function, in the
# `.eh_frame` that all tools read, but no FDE describes an epilogue: rows end with the prologue. At 8 of 9 `ret` instructions of managed
# code the CFA is rsp+16 or more, where it is rsp+8, so the word above the return address is taken for it.
#
# Expected: each row of the table holds for all locations up to the next row (DWARF 5, 6.4.1), including epilogues.
#
# The CIE has the augmentation "zLR": an LSDA in each FDE, in a section `.dotnet_eh_table`, and no personality that reads it. There is no
# `.gcc_except_table`.
#
# What follows: samples that a profiler takes in epilogues have a wrong caller, by `.eh_frame` and by all tables that are made of it.
#
# Needs: python3 with pip, objdump for x86-64.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux_2_28_x86_64 --dest . geopack-2008==2.5.0 2>pip ||
  { cat pip; exit 1; }
python3 -m zipfile -e geopack_2008*.whl wheel
python3 -m pip install --quiet --no-deps --target py pyelftools==0.33 2>pip || { cat pip; exit 1; }
export PYTHONPATH=$work/py
library=wheel/geopack/libgeopack.so
objdump -s -j .comment "$library" | cut -c 44- | tr -d '\n' | grep -o 'NET: ilc [0-9a-z.-]*'
objdump -d --no-show-raw-insn -j __managedcode "$library" >code

cat >rows.py <<'PY'
import bisect, collections, re, sys
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

elf = ELFFile(open(sys.argv[1], "rb"))
code, lsdas = (elf.get_section_by_name(name) for name in ("__managedcode", ".dotnet_eh_table"))
inside = lambda section, at: section["sh_addr"] <= at < section["sh_addr"] + section["sh_size"]
fdes = {e["initial_location"]: e for e in elf.get_dwarf_info().EH_CFI_entries() if isinstance(e, FDE)}
managed = sorted(start for start in fdes if inside(code, start))
assert all(inside(lsdas, fdes[s].lsda_pointer) for s in managed)
assert not any("personality" in fdes[s].cie.augmentation_dict for s in managed)
print(len(managed), "FDEs of managed code, all with an LSDA in .dotnet_eh_table, none with a personality")

seen = collections.Counter()
for line in open("code"):
    if not (found := re.match(r" +([0-9a-f]+):\s+ret", line)):
        continue
    pc = int(found[1], 16)
    fde = fdes[managed[bisect.bisect_right(managed, pc) - 1]]
    if pc >= fde["initial_location"] + fde["address_range"]:
        continue
    rows = [row for row in fde.get_decoded().table if row["pc"] <= pc]
    cfa = rows[-1]["cfa"]
    seen[cfa.reg, cfa.offset] += 1
total, right = sum(seen.values()), seen.pop((7, 8), 0)
print(f"{total} `ret` of managed code: CFA = rsp+8 at {right};", ", ".join(f"rsp+{o} at {n}" for (r, o), n in seen.most_common(5) if r == 7))
assert total > 3000 and right * 8 < total, "epilogues are described now"
PY
python3 rows.py "$library"
echo 'as described'
