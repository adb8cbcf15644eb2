#!/usr/bin/env bash
# ld.lld 14 with --emit-relocs gives the relocations of `.eh_frame` wrong places: the offsets of each input object are counted from the
# output section's start, so those of the second object lie in the first object's FDEs. With --gc-sections
# there is no `.rela.eh_frame` at all, while `.rela.text` is there. No message says so. (23.1.4 has the right places without --gc-sections,
# and none with it.)
#
# Expected: one relocation for the start of each FDE, at its place, with and without --gc-sections, as GNU ld and mold keep them. In an
# executable file `r_offset` is the virtual address of the place (gABI, "Relocation").
#
# What follows: a tool that moves functions by the kept relocations leaves FDEs at old addresses, and moves some starts twice.
#
# Needs: x86-64 Linux, gcc (for as), GNU ld, readelf, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in lld-14=1:14.0.6-12 libllvm14=1:14.0.6-12 mold=1.10.1+dfsg-1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
lld() { LD_LIBRARY_PATH=$libraries unpacked/usr/lib/llvm-14/bin/ld.lld "$@"; }
mold() { unpacked/usr/bin/mold "$@"; }

function_in() {  # $1: its name, $2: its code; in an object of its own
  printf '.globl %s\n%s: .cfi_startproc\n%s\n.cfi_endproc\n' "$1" "$1" "$2" >"$1.s"
  gcc -c "$1.s" -o "$1.o"
}
function_in _start 'call second'
function_in second 'ret'

# The places that relocations name, and the places where the starts of FDEs are: 8 bytes after each FDE.
places() {
  readelf -rW "$1" | awk '/^Relocation section/ { on = /\.rela\.eh_frame/ } on && $3 == "R_X86_64_PC32" { print $1 }' | sort
}
starts() {
  section=$(readelf -SW "$1" | sed 's/.*\] *//' | awk '$1 == ".eh_frame" { print $3 }')
  readelf -wf "$1" | awk '/ FDE / { print $1 }' | sort | while read -r fde; do printf '%016x\n' $((0x$section + 0x$fde + 8)); done
}
check() {  # the linker $1 with the option $2; $3: 1 if the places are right
  "$1" --emit-relocs ${2:+"$2"} _start.o second.o -o linked
  code=$(readelf -SW linked | grep -c '\.rela\.text')
  printf '%s --emit-relocs %s: starts of FDEs at %s, relocations at %s, sections .rela.text: %s\n' \
    "$1" "$2" "$(starts linked | xargs)" "$(places linked | xargs)" "$code"
  right=$([ "$(starts linked)" = "$(places linked)" ] && echo 1 || echo 0)
  [ "$right $code" = "$3 1" ] || { echo 'another output now'; exit 1; }
}
for linker in ld.bfd mold; do
  check "$linker" '' 1
  check "$linker" --gc-sections 1
done
check lld '' 0
[ "$(places linked | uniq | wc -l)" = 1 ] || { echo 'other places now'; exit 1; }
check lld --gc-sections 0
[ -z "$(places linked)" ] || { echo 'relocations now'; exit 1; }
echo 'as described'
