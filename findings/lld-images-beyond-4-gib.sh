#!/usr/bin/env bash
# ld64.lld 14 links an image whose sections lie beyond 4 GiB in the file, says nothing, and ends with status 0. The 32-bit field `offset` of
# these sections has the file offset modulo 2^32, so `__unwind_info`, `__eh_frame` and `__data` start in the Mach-O header. The segments'
# own 64-bit offsets are right. llvm-nm and llvm-objdump refuse the file. (23.1.4 does the same.)
#
# Expected: an error as for other fields that overflow, for example "relocation ... is out of range". `section_64` has
# `uint32_t offset` (`mach-o/loader.h`), so there is no such image.
#
# What follows: the mistake shows where the file is used. A reader that trusts the field reads the header as unwind table or as data.
#
# The functions are aligned to 1 GiB here, so that the file consists of holes. Needs: x86-64 Linux, python3, apt-get with the package lists
# of Debian 12, dpkg-deb, a file system with holes. About 75 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in lld-14 clang-14 libclang-cpp14 libclang-common-14-dev libllvm14 llvm-14; do
  apt-get download -qq "$package=1:14.0.6-12" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
tools=$work/unpacked/usr/lib/llvm-14/bin

for name in a b c d; do
  printf '.globl _%s\n.p2align 30\n_%s: .cfi_startproc\npush %%rbp\n.cfi_def_cfa_offset 16\nret\n.cfi_endproc\n.subsections_via_symbols\n' "$name" "$name" >"$name.s"
  "$tools/clang" -target x86_64-apple-macos11 -c "$name.s" -o "$name.o"
done
printf '.data\n.globl _v\n_v: .quad 42\n' >v.s
"$tools/clang" -target x86_64-apple-macos11 -c v.s -o v.o

cat >sections.py <<'PY'
import struct

with open("image", "rb") as file:
    head = file.read(8192)
at, wrong = 32, 0
for _ in range(struct.unpack_from("<I", head, 16)[0]):
    command, size = struct.unpack_from("<II", head, at)
    if command == 0x19:  # LC_SEGMENT_64
        address, _, offset, _ = struct.unpack_from("<4Q", head, at + 24)
        for section in range(at + 72, at + size, 80):
            name = head[section : section + 16].rstrip(b"\0").decode()
            place, given = struct.unpack_from("<Q", head, section + 32)[0] - address + offset, struct.unpack_from("<I", head, section + 48)[0]
            print(f"  {name}: at {place:#x}, offset {given:#x}")
            wrong += place != given
    at += size
print(f"  {wrong} wrong")
PY
check() {  # $1: how many are wrong, then the objects
  "$tools/ld64.lld" -arch x86_64 -dylib -platform_version macos 11.0 11.0 "${@:2}" -o image 2>messages
  echo "ld64.lld ${*:2}: status 0, $(wc -l <messages) messages"
  python3 sections.py | tee sections
  grep -qx "  $1 wrong" sections && [ ! -s messages ] || { echo 'another result now'; exit 1; }
}
check 0 a.o b.o c.o v.o
"$tools/llvm-nm" image >/dev/null
check 3 a.o b.o c.o d.o v.o
! "$tools/llvm-nm" image >/dev/null 2>messages || { echo 'the image can be read now'; exit 1; }
sed 's/^.*: error: /  llvm-nm: /' messages
echo 'as described'
