#!/usr/bin/env bash
# Mono 6.8's AOT compiler describes each function in `.debug_frame`, and puts the rows of the epilogue right behind the prologue: the
# distance between the two is missing. In a function with `sub rsp, 0x78` at 0x1010 and `add rsp, 0x78` at 0x1087, rows start at 0x1014
# (CFA = rsp+128), 0x1018 (rsp+8) and 0x1019 (rsp+128 again). Of the 24 395 rows for a `ret` of mscorlib, 742 begin at one; most others
# begin inside an instruction.
#
# Expected: the row with CFA = rsp+8 begins at the `ret`. DW_CFA_advance_loc adds to the location of the row before (DWARF 5, 6.4.2.1),
# so an advance has to span the function's body.
#
# What follows: in epilogues the CFA is too high by the size of the frame, so debuggers and samples have a wrong caller there. There is
# no other CFI: `.eh_frame` is empty.
#
# Needs: x86-64 Linux, as, ld, readelf, python3, apt-get with the package lists of Debian 12, dpkg-deb. It compiles for some 20 seconds.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
version=6.8.0.105+dfsg-3.3+deb12u1
for package in mono-runtime-sgen mono-runtime-common libmono-corlib4.5-dll; do
  apt-get download -qq "$package=$version" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
cp unpacked/usr/lib/mono/4.5/mscorlib.dll .
MONO_PATH=$work TMPDIR=$work unpacked/usr/bin/mono-sgen --aot=outfile=image.so mscorlib.dll >mono 2>&1 || { cat mono; exit 1; }
grep Compiled: mono
readelf -SW image.so | grep _frame

readelf -wF image.so >rows 2>/dev/null
readelf -SW image.so | sed 's/.*\] *//' | awk '$1 == ".text" { print $3, $4 }' >text
python3 - <<'P'
import re
address, offset = (int(field, 16) for field in open('text').read().split())
image = open('image.so', 'rb').read()
functions = all_rows = at_ret = 0
start = last = None
for line in open('rows'):
    fde = re.search(r'FDE cie=\w+ pc=(\w+)\.\.', line)
    if fde:
        functions += 1
        start, last = int(fde[1], 16), None
        continue
    row = re.match(r'([0-9a-f]{16}) (\S+)', line)
    if not row or start is None:
        continue
    pc = int(row[1], 16)
    # A row that goes back to the CFA of the function's start is for a `ret`.
    if pc > start and row[2] == 'rsp+8' and last != 'rsp+8':
        all_rows += 1
        at_ret += image[pc - address + offset] == 0xc3
    last = row[2]
    if functions == 1:
        print(line.rstrip())
print(f'{functions} functions, {all_rows} rows with CFA = rsp+8 after another CFA, {at_ret} of them at a ret')
assert functions == all_rows == 24395 and at_ret == 742, 'another output now'
P
echo 'as described'
