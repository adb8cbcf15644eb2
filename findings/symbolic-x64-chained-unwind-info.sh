#!/usr/bin/env bash
# symbolic 13.9.0 gives wrong places of saved registers for functions of PE files for x64 whose unwind info is chained. In a chained record,
# UWOP_SAVE_NONVOL counts from the stack pointer of the whole frame, whose size is in the record that it is chained to. symbolic converts
# the codes of the chained record first, as if the frame had only a return address: the CFA is right, and a register that is at CFA+16 is said
# to be at CFA+72 (".cfa -72 - ^"). Microsoft's compiler writes such records for registers that it saves after an early exit.
#
# Expected: "x64 exception handling" (Microsoft Learn, "Chained unwind info structures": the codes of the chain's primary record apply
# too; UWOP_SAVE_NONVOL: the offset is from the stack pointer, or the frame register, after the fixed allocation).
#
# What follows: stack traces of minidumps go on with wrong rbx, rsi, rdi or rbp, which are then the base of other frames.
#
# The input is the extension module of a wheel for Windows on x64. Needs: python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --target py symbolic==13.9.0 2>pip || { cat pip; exit 1; }
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform win_amd64 --python-version 3.12 \
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
assert machine == 0x8664, "not x64"
table = [struct.unpack_from("<8sIIII", data, pe + 24 + optional + 40 * n) for n in range(sections)]
NAMES = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]

def offset(rva):
    return next(rva - s[2] + s[4] for s in table if s[2] <= rva < s[2] + max(s[1], s[3]))

def record(rva):
    """The bytes that a record's codes push and allocate, its saved registers, the record that it is chained to, its frame register."""
    at = offset(rva)
    flags, count, frame = data[at] >> 3, data[at + 2], data[at + 3] & 15
    slots = struct.unpack_from(f"<{count}H", data, at + 4)
    size, saved, n = 0, {}, 0
    while n < count:
        code, info = slots[n] >> 8 & 15, slots[n] >> 12
        if code == 0:
            size += 8
        elif code == 1:
            size += 8 * slots[n + 1] if info == 0 else slots[n + 1] | slots[n + 2] << 16
        elif code == 2:
            size += 8 * info + 8
        elif code == 4:
            saved[NAMES[info]] = 8 * slots[n + 1]
        n += {1: 2 + info, 4: 2, 5: 3, 8: 2, 9: 3}.get(code, 1)
    parent = struct.unpack_from("<III", data, at + 4 + 2 * (count + count % 2))[2] if flags & 4 else None
    return size, saved, parent, frame

item = next(iter(Archive.open("module.pyd").iter_objects()))
lines = re.findall(r"STACK CFI INIT (\w+) \w+ (.*)", CfiCache.from_object(item).open_stream().read().decode())
stated = {int(start, 16): rules for start, rules in lines}

at, length = struct.unpack_from("<II", data, pe + 24 + 112 + 8 * 3)
counts = {True: [0, 0], False: [0, 0]}
for n in range(0, length, 12):
    start, end, rva = struct.unpack_from("<III", data, offset(at) + n)
    size, saved, parent, frame = record(rva)
    chained, right = parent is not None, {}
    while parent is not None:
        more, _, parent, _ = record(parent)
        size += more
    if frame or start not in stated or not saved:
        continue
    # From the stack pointer after the prologue to the CFA: what was allocated, and the return address.
    right = {name: size + 8 - place for name, place in saved.items()}
    said = {name: int(place) for name, place in re.findall(r"\$(\w+): \.cfa (-?\d+) - \^", stated[start])}
    if chained and counts[True][0] < 3:
        print(f"{start:#x}: CFA = rsp+{size + 8};", ", ".join(f"{r} is at CFA{-right[r]:+}, symbolic has CFA{-said[r]:+}" for r in right))
    counts[chained][0] += 1
    counts[chained][1] += all(said.get(r) == right[r] for r in right)
for chained, (all_, good) in counts.items():
    print(f"{'chained' if chained else 'other'} records that save registers by UWOP_SAVE_NONVOL: {all_}, with right places: {good}")
assert counts[True][0] > 50 and counts[True][1] == 0, "other places in chained records now"
assert counts[False][0] == counts[False][1] > 0, "other places in records that are not chained"
PY
python3 compare.py
echo 'as described'
