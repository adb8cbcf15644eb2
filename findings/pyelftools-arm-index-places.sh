#!/usr/bin/env bash
# pyelftools 0.33 gives functions of `.ARM.exidx` places at which no function is: it adds the PC-relative offset of an entry to the *file offset*
# of the entry, and calls the sum `function_offset`. In a program of ld.lld, whose segments lie at other addresses than file offsets, the
# sum is neither the function's address nor its offset in the file: 0x1010c for `_start` at 0x2010c, offset 0x10c. Offsets to
# `.ARM.extab` (`eh_table_offset`) are made in the same way, but are right where the table lies in the same segment.
#
# Expected: the first word of an entry is the offset of the function from the place of the word in memory ("Exception Handling ABI for the
# Arm Architecture", "Index table entries": prel31), so the function is at the word's address plus the offset, as readelf and llvm-readobj
# print it; the file offset then follows from the segment of the function.
#
# What follows: tools that find functions of stripped ARM programs by this index find none of them.
#
# Needs: binutils (for its libraries), python3 with pip, apt-get with the package lists of Debian 12, dpkg-deb. About 30 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
python3 -m pip install --quiet --no-deps --target py pyelftools==0.33 2>pip || { cat pip; exit 1; }
for package in binutils-arm-linux-gnueabihf=2.40-2 lld-14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
arm=$work/unpacked/usr/bin/arm-linux-gnueabihf
ln -s "$work/unpacked/usr/lib/llvm-14/bin/lld" ld.lld
cat >program.s <<'S'
.syntax unified
.arch armv7-a
.global _start, leaf, __aeabi_unwind_cpp_pr0
.type _start, %function
.type leaf, %function
_start: .fnstart
push {r4, lr}
.save {r4, lr}
bl leaf
pop {r4, pc}
.fnend
leaf: .fnstart
bx lr
.fnend
__aeabi_unwind_cpp_pr0: bx lr
S
"$arm-as" program.s -o program.o
./ld.lld program.o -o program
cat >index.py <<'P'
from elftools.elf.elffile import ELFFile
elf = ELFFile(open('program', 'rb'))
symbols = {s.name: s['st_value'] for s in elf.get_section_by_name('.symtab').iter_symbols()}
(index,) = elf.get_ehabi_infos()
places = [index.get_entry(n).function_offset for n in range(index.num_entry())]
for name, place in zip(('_start', 'leaf'), places):
    address = symbols[name]
    offset = next(elf.address_offsets(address, 1))
    print(f'{name}: address {address:#x}, offset in the file {offset:#x}, function_offset {place:#x}')
    assert place not in (address, offset), 'another place now'
P
"$arm-readelf" -lW program | grep -E 'LOAD|EXIDX'
"$arm-readelf" -u program | grep '^0x'
PYTHONPATH=py python3 index.py
echo 'as described'
