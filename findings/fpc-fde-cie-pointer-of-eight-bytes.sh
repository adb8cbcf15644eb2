#!/usr/bin/env bash
# Free Pascal 3.2.2 writes each FDE of a `.debug_frame` for x86-64 with a length of 4 bytes and a CIE pointer of 8. All fields after it
# are 4 bytes further on than a reader of DWARF looks for them: the function at 0x401000 has an FDE that starts at 0x40100000000000, and
# the upper half of the range's length is read as four DW_CFA_nop. readelf and eu-readelf agree, and neither warns.
#
# Expected: in the 32-bit format, which a length below 0xfffffff0 stands for, CIE_pointer has 4 bytes, also where addresses have 8
# (DWARF 5, 7.4: the size of offsets is the format's, not the architecture's; 6.4.1). The compiler's CIEs have an id of 4 bytes.
#
# What follows: no PC is in any FDE, so debuggers have no CFI for Pascal code, and say nothing.
#
# The program and all units of the run-time library are of one compiler. Needs: apt-get with the package lists of Debian 12, dpkg-deb,
# x86-64 Linux, ld, readelf, eu-readelf.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in fp-compiler-3.2.2 fp-units-rtl-3.2.2; do
  apt-get download -qq "$package=3.2.2+dfsg-20" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
units=$work/unpacked/usr/lib/x86_64-linux-gnu/fpc/3.2.2/units/x86_64-linux/rtl

cat >program.pas <<'P'
program sum;
function upto(n: longint): longint;
begin
  if n = 0 then upto := 0 else upto := n + upto(n - 1);
end;
begin
  writeln(upto(7));
end.
P
unpacked/usr/bin/ppcx64-3.2.2 -n -g -Xs- -Fu"$units" program.pas >messages || { cat messages; exit 1; }
[ "$(./program)" = 28 ]

echo 'the object: an FDE is the length, 4 bytes; the CIE pointer at 0x18, of 8 bytes; the start at 0x20'
readelf -rW program.o | grep -A 3 "'.rela.debug_frame'" | tail -n 2 | awk '{ print $1, $3, $5, $6, $7 }'
readelf -rW program.o | grep -A 3 "'.rela.debug_frame'" | grep -q '^0*18 .* R_X86_64_64 .* .debug_frame + 0$'

readelf -wf program 2>warnings | grep ' FDE ' | sed 's/.*pc=//' >starts
eu-readelf --debug-dump=frames program 2>>warnings | awk '/initial_location: .*00000000$/ { print $2 }' >eu-starts
function=$(readelf -sW program | awk '$8 ~ /UPTO/ { print $2 }')
echo "upto is at $function; the FDEs of the linked program, as readelf and eu-readelf read them:"
head -n 3 starts eu-starts
total=$(wc -l <starts)
wrong=$(grep -cE '^[0-9a-f]{8}0{8}\.\.' starts)
echo "$total FDEs, $wrong with a start of which the low 32 bits are zero; warnings: $(wc -l <warnings)"
[ "$total" -gt 1000 ] && [ "$wrong" = "$total" ] && [ "$(wc -l <eu-starts)" = "$total" ] && [ ! -s warnings ] ||
  { echo 'other FDEs now'; exit 1; }
grep -q "^${function:8}00000000\.\." starts || { echo 'no FDE of the function 32 bits too high'; exit 1; }
echo 'as described'
