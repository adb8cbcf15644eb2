#!/usr/bin/env bash
# mold 1.10.1 with -r ends the `.eh_frame` of the object that it writes with a terminator (four zeros). If that object and another one go
# through `ld.lld -r` or `ld.gold -r`, the terminator lies between their FDEs. Of the result ld.lld 14 finds the functions before it only,
# and says nothing, and GNU ld 2.40 refuses the section ("error in second.o(.eh_frame); no .eh_frame_hdr table will be created") and ends
# with status 0. (mold 3.0.0 writes the terminator too; ld.lld 23.1.4 ends with "relocation is not in any piece".)
#
# Expected: no terminator in an object that is linked again, as after -r of GNU ld, gold and ld.lld: only the last input of a link has
# one, `crtend.o` in C (Linux Standard Base 5.0, Core, "The .eh_frame section": processing ends at a CIE of length zero).
#
# What follows: exceptions do not pass functions of the other objects. If mold's object is linked directly, there is no harm.
#
# Needs: x86-64 Linux, gcc, apt-get with the package lists of Debian 12, dpkg-deb. About 40 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in mold=1.10.1+dfsg-1 lld-14=1:14.0.6-12 libllvm14=1:14.0.6-12 binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
bin=$work/unpacked/usr/bin
ln -s "$bin/mold" ld.mold
ln -s "$work/unpacked/usr/lib/llvm-14/bin/lld" ld.lld
ln -s "$bin/x86_64-linux-gnu-ld.bfd" ld.bfd
ln -s "$bin/x86_64-linux-gnu-ld.gold" ld.gold
for n in 1 2 3; do
  printf 'int f%s(int a) { return a + %s; }\nint g%s(int a) { return f%s(a) * 2; }\n' $n $n $n $n >f$n.c
  gcc -O1 -fno-inline -c f$n.c
done
"$bin/mold" --version
for linker in bfd gold lld mold; do
  ./ld.$linker -r f1.o f2.o -o $linker.o
  printf '%s -r: terminators: %s\n' $linker "$("$bin/x86_64-linux-gnu-readelf" -wf $linker.o | grep -c ZERO || true)" | tee -a terminators
done
[ "$(cut -d' ' -f4 terminators | tr '\n' ' ')" = '0 0 0 1 ' ] || { echo 'other terminators now'; exit 1; }

# table FIRST SECOND FINAL: what FINAL has in .eh_frame_hdr if FIRST -r made an object, SECOND -r another one of it, and FINAL a library
table() {
  ./ld."$2" -r "$1".o f3.o -o second.o
  ./ld."$3" --eh-frame-hdr -shared second.o -o linked.so 2>messages
  entries=$("$bin/x86_64-linux-gnu-readelf" -x .eh_frame_hdr linked.so | awk '/0x/ { print $4; exit }')
  printf '%s -r, %s -r, %s: functions in the search table: %s %s\n' "$1" "$2" "$3" "${entries:0:2}" "$(cat messages)" | tee -a tables
}
for second in lld gold; do
  table bfd $second lld
  table mold $second lld
  table mold $second bfd
done
sed 's/.*table: //' tables >seen
cat >expected <<'R'
06 
04 
.. ./ld.bfd: error in second.o(.eh_frame); no .eh_frame_hdr table will be created
06 
04 
.. ./ld.bfd: error in second.o(.eh_frame); no .eh_frame_hdr table will be created
R
diff expected seen || { echo 'other tables now'; exit 1; }
echo 'as described'
