#!/usr/bin/env bash
# GraalVM 25's native-image writes Windows x64 unwind records that undo pushes which the code does not make. A function with rbp as the frame register
# keeps rbp at [rsp+8] while it calls Java code, which changes rbp. For each such call it has a chained record with a prologue of 0
# bytes, "push rbp" and "sub rsp, 8": undone in order, they load rbp from [rsp+8], and leave a wrong rsp. The chain's first record then
# sets rsp by rbp, and corrects it. So the walk is right, and the records are not what the code does.
#
# Expected: UWOP_SAVE_NONVOL of rbp at 8. "x64 exception handling" (Microsoft Learn, "Chained unwind info structures") allows saves in a
# chained record, and says that one with a push or a further fixed allocation is not supported.
#
# What follows: a reader that gives a function one CFA for each PC, or adds up the sizes of a chain, has a CFA that is 16 bytes too high in
# these ranges. Stack sizes and pushes cannot be checked against the code.
#
# The program is Closure Compiler 20261015 of npm. Needs: npm, tar, objdump with pei-x86-64, python3. About 17 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent google-closure-compiler-windows@20261015.0.0 >/dev/null 2>npm || { cat npm; exit 1; }
tar -xf google-closure-compiler-windows-20261015.0.0.tgz package/compiler.exe
grep -aohE 'GraalVM CE [0-9.]+' package/compiler.exe | sort -u
cat >records.py <<'PY'
import collections, struct, subprocess

data = open("package/compiler.exe", "rb").read()
pe = struct.unpack_from("<I", data, 0x3c)[0]
base = struct.unpack_from("<Q", data, pe + 48)[0]
sections = [struct.unpack_from("<8xIIII", data, pe + 24 + struct.unpack_from("<H", data, pe + 20)[0] + 40 * n)
            for n in range(struct.unpack_from("<H", data, pe + 6)[0])]
def at(rva):
    return next(offset + rva - start for size, start, _, offset in sections if start <= rva < start + size)

PUSH, SMALL, FRAME, CHAIN = 0, 2, 3, 4
names = {(PUSH, 5): "push rbp", (SMALL, 0): "sub rsp, 8"}
kinds = collections.Counter()
shown = None
directory, size = struct.unpack_from("<II", data, pe + 24 + 112 + 8 * 3)
for entry in range(0, size - 11, 12):
    start, end, info = struct.unpack_from("<III", data, at(directory + entry))
    first, prologue, count, _ = data[at(info):at(info) + 4]
    if first >> 3 != CHAIN:
        continue
    codes = [data[at(info) + 5 + 2 * n] for n in range(count)]
    if any((code & 15, code >> 4) not in names for code in codes):
        kinds[prologue, ("saves, as in C code",)] += 1
        continue
    text = [names[code & 15, code >> 4] for code in codes]
    kinds[prologue, tuple(text)] += 1
    if text and shown is None:
        shown = start
        chained = struct.unpack_from("<III", data, at(info) + 4 + 2 * (count + count % 2))
        out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={base + start - 5}",
                              f"--stop-address={base + end}", "package/compiler.exe"], capture_output=True, text=True).stdout
        print("\n".join(line for line in out.split("\n") if line.startswith(" ")))
        print(f"record {base + start:x}..{base + end:x}, chained to {base + chained[0]:x}: {text}")
for (prologue, text), number in kinds.items():
    print(f"{number} chained records, prologue {prologue}: {', '.join(text) or 'no codes'}")
PY
python3 records.py | tee records
grep -qE 'mov +%rbp,0x8\(%rsp\)' records && grep -qE 'mov +0x8\(%rsp\),%rbp' records || { echo 'other code now'; exit 1; }
grep -qE '^[0-9]+ chained records, prologue 0: sub rsp, 8, push rbp$' records || { echo 'other records now'; exit 1; }
! grep -q ' push ' <(grep -E '^ ' records) || { echo 'the code has a push now'; exit 1; }
echo 'as described'
