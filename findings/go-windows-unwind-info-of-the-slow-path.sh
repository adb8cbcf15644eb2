#!/usr/bin/env bash
# Go 1.26's linker gives each function of a Windows x64 program one unwind record: `push rbp`, and rbp is the frame register. The code that asks
# for more stack lies at the function's end and runs before `push rbp`, but by the record it is a part of the body. So an unwinder takes
# the caller's rbp for the function's own there: it finds the caller's caller, and the caller is missing. The check is in most functions.
#
# Expected: the codes are undone for each PC that is at or after the prologue's end ("x64 exception handling", Microsoft Learn,
# "Unwind procedure"), so code that runs without the frame needs a record of its own, as compilers write it for parts of a function that they
# have moved out. In the `.debug_frame` that the same linker writes, this code has the right row, CFA = rsp+8.
#
# What follows: samples of ETW, and debuggers that stop in runtime.morestack, lose a frame.
#
# The program is esbuild 0.28.2 of npm. Needs: npm, tar, objdump for x86-64 with pei-x86-64, python3. About 5 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent @esbuild/win32-x64@0.28.2 >/dev/null 2>npm || { cat npm; exit 1; }
tar -xf esbuild-win32-x64-0.28.2.tgz package/esbuild.exe
grep -aoE 'go1\.[0-9]+\.[0-9]+' package/esbuild.exe | sort -u | head -n 1 | tee version
objdump -d --no-show-raw-insn package/esbuild.exe >code
cat >count.py <<'PY'
import bisect, re, struct

data = open("package/esbuild.exe", "rb").read()
pe = struct.unpack_from("<I", data, 0x3c)[0]
sections = struct.unpack_from("<H", data, pe + 6)[0]
table = pe + 24 + struct.unpack_from("<H", data, pe + 20)[0]
base = struct.unpack_from("<Q", data, pe + 48)[0]
ranges = [struct.unpack_from("<8xIIII", data, table + 40 * n) for n in range(sections)]
def at(rva):
    return next(offset + rva - start for size, start, _, offset in ranges if start <= rva < start + max(size, 1))
directory, size = struct.unpack_from("<II", data, pe + 24 + 112 + 8 * 3)

lines = {}
for line in open("code"):
    match = re.match(r" +([0-9a-f]+):\s+(\S.*?)\s*$", line)
    if match:
        lines[int(match[1], 16)] = match[2]
places = sorted(lines)
def block(start, end):
    return [(place, lines[place]) for place in places[bisect.bisect_left(places, start):bisect.bisect_left(places, end)]]

functions = slow = other = 0
codes = set()
shown = False
for entry in range(0, size, 12):
    start, end, info = struct.unpack_from("<III", data, at(directory + entry))
    _, prologue, count, _ = record = data[at(info):at(info) + 4]
    codes.add(tuple(data[at(info) + 5 + 2 * n] for n in range(count)))
    functions += 1
    body = block(base + start, base + end)
    jump = next((int(text.split()[1], 16) for place, text in body
                 if place < base + start + prologue and re.match(r"jbe? ", text)), None)
    if jump is None:
        continue
    path = [(place, text) for place, text in body if place >= jump]
    frame = any("push   %rbp" in text for _, text in path)
    call = any(text.startswith("call") for _, text in path)
    if path and jump > base + start + prologue and call and not frame:
        slow += 1
        if not shown:
            shown = True
            for place, text in [b for b in body if b[0] < base + start + prologue + 8] + [(0, "...")] + path:
                print(f"{place:x}: {text}" if place else text)
            print(f"prologue: up to {base + start + prologue:x}, record: up to {base + end:x}")
print(f"{functions} records, kinds of codes: {codes}")
print(f"records that cover a call before the frame is made: {slow}")
PY
python3 count.py | tee counted
grep -q '^go1.26.5$' version || { echo 'another version of Go'; exit 1; }
grep -q '^7949 records, kinds of codes: {(3, 80)}$' counted || { echo 'other records now'; exit 1; }
[ "$(sed -n 's/^records that cover.*: //p' counted)" -gt 7000 ] || { echo 'fewer such records now'; exit 1; }
echo 'as described'
