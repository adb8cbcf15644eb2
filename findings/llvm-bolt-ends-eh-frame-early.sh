#!/usr/bin/env bash
# llvm-bolt 16 writes a terminator (four zeros) into the middle of `.eh_frame`: after the FDEs of the functions that it moved, and before
# those of all other code, such as `.plt` and functions that it skips. `.eh_frame_hdr` has all of them. (23.1.4 writes one at the end.)
#
# Expected: a terminator ends the section's contents, so it comes after the last FDE (Linux Standard Base 5.0, Core, "The .eh_frame
# section": a CIE of length zero is a terminator, and processing ends there).
#
# What follows: readers of `.eh_frame` that stop there have no FDE of the code that stays: llvm-dwarfdump of the same
# release prints 2 of 7. Readers of the search table find all.
#
# Needs: x86-64 Linux, gcc, readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 120 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in bolt-16 llvm-16 libllvm16; do
  apt-get download -qq "$package=1:16.0.6-15~deb12u1" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-16/lib
llvm() { LD_LIBRARY_PATH=$libraries unpacked/usr/lib/llvm-16/bin/"$@"; }

printf '#include <stdio.h>\nvoid stays(void) { puts(""); }\nint main(void) { stays(); return 0; }\n' >main.c
gcc -O1 -Wl,--emit-relocs main.c -o program
llvm llvm-bolt program -o moved --lite=0 --skip-funcs=stays >messages 2>&1 || { cat messages; exit 1; }

count() {
  all=$(readelf -wf "$1" | grep -c ' FDE ')
  before=$(readelf -wf "$1" | sed '/ZERO terminator/q' | grep -c ' FDE ')
  dwarfdump=$(llvm llvm-dwarfdump --eh-frame "$1" | grep -c ' FDE ')
  header=$(readelf -x .eh_frame_hdr "$1" | awk '/0x/ { print $4; exit }')
  printf '%s: %s FDEs, %s before the first terminator, %s by llvm-dwarfdump, in the search table (in hexadecimal): %s\n' \
    "$1" "$all" "$before" "$dwarfdump" "$header"
}
count program
[ "$all" = "$before" ] && [ "$all" = "$dwarfdump" ] || { echo 'the input is another one'; exit 1; }
count moved
[ "$before" = "$dwarfdump" ] && [ "$before" -lt "$all" ] || { echo 'another output now'; exit 1; }
readelf -wf moved | grep -E ' FDE |ZERO'
echo 'as described'
