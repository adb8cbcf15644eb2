#!/usr/bin/env bash
# GNU ld 2.40 for SH with -relax, by which gcc -mrelax shortens calls, moves functions, but not their FDEs: the FDE of `second` starts where
# the function was before bytes were deleted in front of it, and reaches into other functions. Within a function, rows after a deleted
# word are too far behind. Without -relax all rows are right. There is no message; with --eh-frame-hdr, which gcc passes for Linux, the link
# fails (".eh_frame_hdr refers to overlapping FDEs").
#
# Expected: an FDE starts at its function, whose symbol ld has moved (DWARF 5, 6.4.1, initial_location), and rows begin at the instructions
# that they are for. ld for RISC-V, which deletes bytes too, corrects starts, lengths and advances. (ld 2.26 for AVR with --relax corrects
# starts and lengths, and not the advances behind a call that it has shortened.)
#
# What follows: traces through code that was compiled with -mrelax find no FDE, or another function's.
#
# Needs: gcc (for its libraries), apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in cpp-12-sh4-linux-gnu=12.2.0-13cross1 binutils-sh4-linux-gnu=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
sh4=$work/unpacked/usr/bin/sh4-linux-gnu
cat >functions.c <<'C'
int callee(int);
int first(int a) { if (a > 3) { int r = callee(a + 1); return r + callee(r) * a; } return callee(a) + 1; }
int second(int a) { return callee(a) + callee(a + 1); }
C
printf 'int callee(int a) { return a * 5; }\n' >callee.c
for unit in functions callee; do
  unpacked/usr/lib/gcc-cross/sh4-linux-gnu/12/cc1 -quiet -O2 -mrelax -fasynchronous-unwind-tables $unit.c -o $unit.s
  "$sh4-as" -relax $unit.s -o $unit.o
done

# link OPTION...: prints the functions and the starts of the FDEs; `lost`: functions at which no FDE starts
link() {
  "$sh4-ld" "$@" -e first functions.o callee.o -o program
  "$sh4-readelf" -sW program | awk '$4 == "FUNC" { print $2, $8 }' | sort >functions
  "$sh4-readelf" -wf program | grep -oE 'pc=[0-9a-f]+' | cut -c4- | sort >fdes
  lost=$(join -v 1 functions fdes | cut -d' ' -f2 | xargs)
  printf '%s: functions: %s; FDEs start at: %s; functions without FDE: %s\n' \
    "${*:-without -relax}" "$(paste -sd, functions)" "$(paste -sd, fdes)" "${lost:-none}"
}
# The row at the first return, in whose delay slot the last register is restored: CFA = r15+4.
returns() {
  at=$("$sh4-objdump" -d --no-show-raw-insn program | awk '/rts/ { sub(":", "", $1); print $1; exit }')
  row=$("$sh4-readelf" -wF program | awk -v at="00$at" '/ FDE / { f = 1 } f && /^0/ && $1 <= at { r = $2 } f && /^$/ { exit } END { print r }')
  printf 'first return: 0x%s, CFA of its row: %s\n' "$at" "$row"
}
link
[ -z "$lost" ] || { echo 'other FDEs'; exit 1; }
returns
[ "$row" = 'r15+4' ] || { echo 'another row'; exit 1; }
link -relax
case "$lost" in *second*) ;; *) echo 'other FDEs now'; exit 1 ;; esac
returns
[ "$row" != 'r15+4' ] || { echo 'another row now'; exit 1; }
if "$sh4-ld" -relax --eh-frame-hdr -e first functions.o callee.o -o program 2>messages; then echo 'a link with --eh-frame-hdr now'; exit 1; fi
grep -o '.eh_frame_hdr refers to overlapping FDEs' messages
echo 'as described'
