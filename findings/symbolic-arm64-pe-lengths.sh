#!/usr/bin/env bash
# symbolic 13.9.0 gives functions of PE files for ARM64 a wrong length in their "STACK CFI INIT" records if their unwind data are in
# `.xdata`: it takes bits 2 to 12 of the second word of the `.pdata` entry for the length also where that word is the RVA of an `.xdata`
# record. The ranges reach far over the functions after it, so two or more records claim the same PC with different rules.
#
# Expected: "ARM64 exception handling" (Microsoft Learn, ".pdata records" and ".xdata records"): only if Flag, the low two bits, is not
# zero does the word hold packed unwind data with a Function Length; for Flag 0 it is the low 18 bits of the `.xdata` header's first word.
#
# The input is the extension module of a wheel for Windows on ARM64. Needs: python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --target py symbolic==13.9.0 2>pip || { cat pip; exit 1; }
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform win_arm64 --python-version 3.12 \
  --implementation cp --abi cp312 cffi==2.0.0 2>pip || { cat pip; exit 1; }
python3 -m zipfile -e cffi*.whl wheel
export PYTHONPATH=$work/py
cp wheel/_cffi_backend*.pyd module.pyd

cat >compare.py <<'PY'
import re, struct
from symbolic.cfi import CfiCache
from symbolic.debuginfo import Archive

data = open("module.pyd", "rb").read()
pe = struct.unpack_from("<I", data, 60)[0]
machine, sections, optional = *struct.unpack_from("<HH", data, pe + 4), struct.unpack_from("<H", data, pe + 20)[0]
assert machine == 0xAA64, "not ARM64"
table = [struct.unpack_from("<8sIIII", data, pe + 24 + optional + 40 * n) for n in range(sections)]

def offset(rva):
    return next(rva - s[2] + s[4] for s in table if s[2] <= rva < s[2] + max(s[1], s[3]))

_, start, _, _, _ = pdata = next(s for s in table if s[0].startswith(b".pdata"))
lengths, words = {}, {}
at, size = struct.unpack_from("<II", data, pe + 24 + 112 + 8 * 3)
for n in range(0, size, 8):
    rva, word = struct.unpack_from("<II", data, offset(at) + n)
    if word & 3 == 0 and word:
        lengths[rva] = 4 * (struct.unpack_from("<I", data, offset(word))[0] & 0x3FFFF)
        words[rva] = 4 * (word >> 2 & 0x7FF)

item = next(iter(Archive.open("module.pyd").iter_objects()))
text = CfiCache.from_object(item).open_stream().read().decode()
stated = {int(a, 16): int(b, 16) for a, b in re.findall(r"STACK CFI INIT (\w+) (\w+)", text)}
shared = [rva for rva in sorted(lengths) if rva in stated]
for rva in shared[:4]:
    print(f"{rva:#x}: .xdata says {lengths[rva]:#x} bytes, STACK CFI INIT {stated[rva]:#x}")
right = sum(stated[rva] == lengths[rva] for rva in shared)
print(len(shared), "functions with .xdata;", right, "have their length,", sum(stated[r] == words[r] for r in shared), "have bits of the RVA")
assert len(shared) > 20 and right < len(shared) / 10 and all(stated[r] == words[r] for r in shared), "other lengths now"
PY
python3 compare.py
echo 'as described'
