#!/usr/bin/env bash
# llvm-install-name-tool 14 adds a load command to a Mach-O file whose header has no room for it, says nothing, and ends with status 0. The
# commands then reach into the code: the new LC_RPATH has the first functions' instructions for its path. LLVM's own tools refuse the
# file ("offset field of section 0 ... not past the headers of the file"). (22.1 and 23.1.4 do the same.)
#
# Expected: an error, as Apple's install_name_tool has ("larger updated load commands do not fit"): `sizeofcmds` bytes after the header
# are load commands (`mach-o/loader.h`), and code of a linked image cannot move, because `__unwind_info` and everything else has its place.
#
# What follows: the loader refuses the library or takes code for a path. ld64.lld leaves 32 bytes by default (-headerpad), which is less than
# one LC_RPATH with a path of 24 letters.
#
# Needs: x86-64 Linux, python3, apt-get with the package lists of Debian 12, dpkg-deb. About 75 MB are downloaded.
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

printf 'int g(int);\nint a(int x) { return g(x) + 1; }\n' >f.c
"$tools/clang" -target arm64-apple-macos11 -O1 -c f.c -o f.o
"$tools/ld64.lld" -arch arm64 -dylib -undefined dynamic_lookup -platform_version macos 11.0 11.0 f.o -o f.dylib

cat >ends.py <<'PY'
import struct, sys

with open(sys.argv[1], "rb") as file:
    image = file.read()
count, size = struct.unpack_from("<II", image, 16)
at, end, paths, text = 32, 32 + size, [], None
for _ in range(count):
    command, length = struct.unpack_from("<II", image, at)
    if command == 0x8000001C:  # LC_RPATH
        path = at + struct.unpack_from("<I", image, at + 8)[0]
        paths.append(image[path : at + length].rstrip(b"\0"))
    if command == 0x19 and text is None:  # LC_SEGMENT_64: its first section
        text = struct.unpack_from("<I", image, at + 72 + 48)[0]
    at += length
print("commands end", "before" if end <= text else "after", "the start of the code;", "paths are as given" if paths == [b"@loader_path/" + b"x" * length for length in map(int, sys.argv[2:])] else "a path has other bytes")
PY
check() {  # $1: letters in the path, $2: what is expected
  cp f.dylib changed.dylib
  "$tools/llvm-install-name-tool" -add_rpath "@loader_path/$(printf "%0$1d" 0 | tr 0 x)" changed.dylib >messages 2>&1
  found=$(python3 ends.py changed.dylib "$1")
  printf 'a path with %s letters more: status 0, %s messages; %s\n' "$1" "$(wc -l <messages)" "$found"
  [ "$found" = "$2" ] && [ ! -s messages ] || { echo 'another result now'; exit 1; }
}
check 2 'commands end before the start of the code; paths are as given'
"$tools/llvm-objdump" --macho --private-headers changed.dylib >/dev/null
check 80 'commands end after the start of the code; a path has other bytes'
! "$tools/llvm-objdump" --macho --private-headers changed.dylib >/dev/null 2>messages || { echo 'the file can be read now'; exit 1; }
sed 's/^.*: error: /  llvm-objdump: /' messages
echo 'as described'
