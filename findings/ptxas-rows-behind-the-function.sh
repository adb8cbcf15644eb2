#!/usr/bin/env bash
# ptxas 12.9 writes call frame information into every release cubin (-O3, without -g or -lineinfo), and its last row is far outside
# the function. The `.debug_frame` of a kernel of 128 bytes is DWARF64, has the return address column 0xffffffff and the CFA in
# register 83886081, and ends with a DW_CFA_advance_loc4 of 0x3ffffffc instructions: by the code alignment factor of 4 the row
# begins 4 294 967 280 bytes further on, in code that the FDE does not cover.
#
# Expected: no `.debug_` section where no debug information was asked for; and rows within the FDE's `address_range`, for which alone
# the table is (DWARF 5, 6.4.1).
#
# What follows: a tool that adds up the advances of FDEs, or sorts rows of all functions in one list, must check the range.
#
# Needs: python3 with pip. No GPU.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux2010_x86_64 --dest . nvidia-cuda-nvcc-cu12==12.9.86 2>pip ||
  { cat pip; exit 1; }
python3 -m pip install --quiet --no-deps --target py pyelftools==0.33 2>pip || { cat pip; exit 1; }
python3 -m zipfile -e nvidia_cuda_nvcc*.whl wheel
ptxas=wheel/nvidia/cuda_nvcc/bin/ptxas
chmod +x "$ptxas"

cat >k.ptx <<'PTX'
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.s32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  ret;
}
PTX
"$ptxas" -arch sm_75 -O3 k.ptx -o k.cubin

# The relocation of the FDE's start is not applied: it is 0 in the object.
PYTHONPATH=py python3 - <<'PY'
import struct
from elftools.elf.elffile import ELFFile

with open("k.cubin", "rb") as file:
    elf = ELFFile(file)
    assert not elf.get_section_by_name(".debug_info"), "there is debug information"
    data = elf.get_section_by_name(".debug_frame").data()
escape, length, cie_id, version = struct.unpack_from("<IQQB", data, 0)
assert escape == 0xFFFFFFFF and cie_id == 2**64 - 1 and version == 3, "no CIE of DWARF64"
fde = data[12 + length:]
escape, length, _, start, size = struct.unpack_from("<IQQQQ", fde, 0)
program, rows = fde[36:12 + length], [0]
while program and program[0] != 0:
    if program[0] == 0x04:  # DW_CFA_advance_loc4, in instructions of 4 bytes
        rows.append(rows[-1] + 4 * struct.unpack_from("<I", program, 1)[0])
        program = program[5:]
    else:
        assert program[0] == 0x0C, "another instruction now"  # DW_CFA_def_cfa: two numbers that end at a byte below 0x80
        numbers = 0
        program = program[1:]
        while numbers < 2:
            numbers, program = numbers + (program[0] < 0x80), program[1:]
print("the FDE covers", hex(size), "bytes; its rows begin at", [hex(row) for row in rows])
assert rows[-1] > 2**32 > size, "the rows are within the function now"
PY
echo 'as described'
