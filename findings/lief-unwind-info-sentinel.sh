#!/usr/bin/env bash
# LIEF 1.0.0 counts the sentinel of a Mach-O file's `__unwind_info` as a function: `Binary.unwind_functions` of a file with N entries
# has N+1 elements, and the last is the place where the code *ends*. There is no code of a function at it.
#
# Expected: the last element of the first-level index only bounds the page before it. `mach-o/compact_unwind_encoding.h` says that it
# has no second-level page (offset 0), and every unwinder takes its `functionOffset` for the end of what the table covers.
#
# The input is the extension module of a wheel for macOS on arm64. The entries are counted here from the section's bytes.
# Needs: python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target "$work/py" lief==1.0.0 2>pip || { cat pip; exit 1; }
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform macosx_11_0_arm64 --python-version 3.12 \
  --implementation cp --abi cp312 MarkupSafe==3.0.2 2>pip || { cat pip; exit 1; }
python3 -m zipfile -e MarkupSafe*.whl wheel
export PYTHONPATH=$work/py

cat >compare.py <<'PY'
import glob, struct, lief

binary = lief.parse(glob.glob("wheel/markupsafe/*.so")[0])
table = bytes(next(s for s in binary.sections if s.name == "__unwind_info").content)
index, count = struct.unpack_from("<II", table, 20)
entries, sentinel = set(), None
for n in range(count):
    function, page, _ = struct.unpack_from("<III", table, index + 12 * n)
    if page == 0:
        sentinel = function
        continue
    kind, at, number = struct.unpack_from("<IHH", table, page)
    for k in range(number):
        if kind == 2:
            entries.add(struct.unpack_from("<I", table, page + at + 8 * k)[0])
        else:
            entries.add(function + (struct.unpack_from("<I", table, page + at + 4 * k)[0] & 0xFFFFFF))
found = sorted({f.address for f in binary.unwind_functions})
text = next(s for s in binary.sections if s.name == "__text")
print("entries of the table:", [hex(e) for e in sorted(entries)], "sentinel:", hex(sentinel))
print("LIEF's functions:    ", [hex(f) for f in found])
print("__text ends at:", hex(text.virtual_address + text.size))
assert set(found) == entries | {sentinel} and sentinel not in entries, "another list now"
PY
python3 compare.py 2>errors || { cat errors; exit 1; }
echo 'as described'
