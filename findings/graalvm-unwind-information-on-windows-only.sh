#!/usr/bin/env bash
# GraalVM 25's native-image writes unwind information for all Java code on Windows, and none on Linux. Of the same release of the same program, the
# Windows x64 file has unwind records for 98 % of `.text`. The Linux x86-64 file has FDEs for 1 %, which is the C code in it, and no
# `.eh_frame_hdr`. Its Java code keeps no frame pointer either.
#
# Expected: the same on both. What a RUNTIME_FUNCTION of Java code says (a frame of N bytes from the end of `sub rsp, N` on) is an FDE of two or
# three rows. The ABI asks for both: "x64 exception handling" (Microsoft Learn) for each function that moves the stack pointer, and
# System V ABI, AMD64, 6.2 ("Unwind Library Interface") for each function that is to be passed by a trace.
#
# What follows: perf, gdb and signal handlers that unwind see one Java frame of a Linux program, and no caller.
#
# The program is Closure Compiler 20261015 of npm. Needs: npm, tar, readelf and objdump with pei-x86-64, python3. About 33 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for system in linux windows; do
  npm pack --silent google-closure-compiler-$system@20261015.0.0 >/dev/null 2>npm || { cat npm; exit 1; }
  mkdir $system
  tar -xf google-closure-compiler-$system-20261015.0.0.tgz -C $system --strip-components=1
done
grep -aohE 'GraalVM CE [0-9.]+' linux/compiler windows/compiler.exe | sort | uniq -c
readelf -SW linux/compiler >sections
readelf -wf linux/compiler >frames 2>/dev/null
objdump -h windows/compiler.exe >windows-sections
cat >count.py <<'PY'
import re, struct

def covered(ranges):
    end = total = 0
    for start, stop in sorted(ranges):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total

def report(system, kind, ranges, text):
    inside = [(max(a, text[0]), min(b, text[1])) for a, b in ranges if a < text[1] and b > text[0]]
    print(f"{system}: {len(inside)} {kind}, {100 * covered(inside) / (text[1] - text[0]):.0f} % of .text")

line = re.search(r"\.text +PROGBITS +(\w+) +\w+ +(\w+)", open("sections").read())
start, size = (int(number, 16) for number in line.groups())
fdes = [tuple(int(number, 16) for number in pair) for pair in re.findall(r"pc=(\w+)\.\.(\w+)", open("frames").read())]
report("Linux", "FDEs", fdes, (start, start + size))

data = open("windows/compiler.exe", "rb").read()
pe = struct.unpack_from("<I", data, 0x3c)[0]
sections = [struct.unpack_from("<8sIIII", data, pe + 24 + struct.unpack_from("<H", data, pe + 20)[0] + 40 * n)
            for n in range(struct.unpack_from("<H", data, pe + 6)[0])]
table = {name.rstrip(b"\0").decode(): (start, size, offset) for name, size, start, _, offset in sections}
start, size, offset = table[".pdata"]
records = [struct.unpack_from("<II", data, offset + place) for place in range(0, size - 11, 12)]
start, size, _ = table[".text"]
report("Windows", "records", records, (start, start + size))
PY
python3 count.py | tee counted
grep -c 'eh_frame_hdr' sections || true
grep -qE '^Linux: [0-9]{3} FDEs, [0-3] % of .text$' counted || { echo 'more FDEs on Linux now'; exit 1; }
grep -qE '^Windows: 31[0-9]{3} records, (8[0-9]|9[0-9]|100) % of .text$' counted || { echo 'other records on Windows now'; exit 1; }
! grep -q 'eh_frame_hdr' sections || { echo 'an .eh_frame_hdr now'; exit 1; }
echo 'as described'
