#!/usr/bin/env bash
# gold 2.40 with -r removes the second copy of a template's or an inline function, and the relocations of its FDE, but leaves the FDE. Its start
# is now the place of the field itself: the FDE describes bytes of `.eh_frame` as code. GNU ld then refuses the section when it links the
# object ("error in r.o(.eh_frame); no .eh_frame_hdr table will be created"), and ends with status 0. The program has an `.eh_frame_hdr`
# without a table, and the wrong FDEs.
#
# Expected: no FDE, as after -r of GNU ld and mold; or a relocation R_X86_64_NONE at its start, as after -r of lld, by which linkers
# know that the function is gone (gABI, "Section Groups": references to a removed member have to go with it).
#
# What follows: each lookup of a PC in the program searches all of `.eh_frame`, where a record is for no code.
#
# Needs: x86-64 Linux, g++, GNU ld, gold, readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 35 MB are downloaded.
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

cat >shared.h <<'C'
template <int N> __attribute__((noinline)) int shared(int a) { if (a > N) throw a; return a * N; }
C
cat >a.cpp <<'C'
#include "shared.h"
int other(int);
int main(int count, char **) { try { return shared<3>(count) + other(9); } catch (int) { return 0; } }
C
cat >b.cpp <<'C'
#include "shared.h"
int other(int a) { return shared<3>(a) * 2; }
C
for name in a b; do g++ -O1 -c "$name.cpp" -o "$name.o"; done

# The places of starts in FDEs of $1, and the places that have relocations (R_X86_64_NONE too).
starts() { readelf -wf "$1" | awk '/ FDE / { print $1 }' | while read -r fde; do printf '%016x\n' $((0x$fde + 8)); done | sort; }
relocated() { readelf -rW "$1" | awk '/^Relocation section/ { on = /\.rela\.eh_frame/ } on && /R_X86_64/ { print $1 }' | sort; }
check() {  # $1: linker, $2: FDEs, $3: FDEs without relocation, $4: what ld says, $5: the encoding of the table in the program
  "$1" -r a.o b.o -o r.o
  fdes=$(starts r.o | wc -l) lost=$(comm -23 <(starts r.o) <(relocated r.o) | wc -l)
  g++ -fuse-ld=bfd r.o -o program 2>messages
  ./program
  says=$(grep -o 'error in.*' messages || true)
  table=$(readelf -x .eh_frame_hdr program | awk '/0x/ { print substr($2, 7); exit }')
  printf '%s -r: %s FDEs, %s of them without a relocation; encoding of the table after GNU ld: %s; %s\n' "$1" "$fdes" "$lost" "$table" "$says"
  [ "$fdes $lost $table $says" = "$2 $3 $5 $4" ] || { echo 'another result now'; exit 1; }
}
readelf -gW a.o | grep -q COMDAT || { echo 'no section group'; exit 1; }
check ld.bfd 3 0 '' 3b
check mold 3 0 '' 3b
check lld 4 0 '' 3b
check ld.gold 4 1 'error in r.o(.eh_frame); no .eh_frame_hdr table will be created' ff
echo 'as described'
