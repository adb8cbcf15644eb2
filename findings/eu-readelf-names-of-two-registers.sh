#!/usr/bin/env bash
# eu-readelf 0.188 prints the name of the first register for both registers of DW_CFA_register: "register r3 (rbx) in r12 (rbx)". The
# numbers are right. It is so for all architectures; for s390x, where gcc saves registers in floating-point registers, f0 is printed as the
# register that it keeps, and for SPARC each function has "register r15 (o7) in r31 (o7)".
#
# Expected: "r12 (r12)", as readelf and llvm-dwarfdump print it: the instruction has two operands, the register that the rule is for, and
# the one that it is saved in (DWARF 5, 6.4.2.3; names by the ABI's "DWARF Register Number Mapping").
#
# What follows: who reads names, or a program that takes them from the text, takes the rule for "not changed".
#
# Needs: x86-64 Linux, gcc (for as), readelf, s390x-linux-gnu-as, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in elfutils libdw1 libelf1 libasm1; do
  apt-get download -qq "$package=0.188-2.1" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
cat >x86-64.s <<'S'
function: .cfi_startproc
mov %rbx, %r12
.cfi_register %rbx, %r12
ret
.cfi_endproc
S
cat >s390x.s <<'S'
function: .cfi_startproc
ldgr %f0, %r14
.cfi_register 14, 16
br %r14
.cfi_endproc
S
as x86-64.s -o x86-64.o
s390x-linux-gnu-as s390x.s -o s390x.o
for arch in x86-64 s390x; do
  printf '%s: readelf: %s; eu-readelf: %s\n' $arch "$(readelf -wf $arch.o | grep -oE 'DW_CFA_register: .*')" \
    "$(LD_LIBRARY_PATH=unpacked/usr/lib/x86_64-linux-gnu unpacked/usr/bin/eu-readelf --debug-dump=frames $arch.o | grep -oE ' register .*' | xargs)" |
    tee -a output
done
cat >expected <<'R'
x86-64: readelf: DW_CFA_register: r3 (rbx) in r12 (r12); eu-readelf: register r3 (rbx) in r12 (rbx)
s390x: readelf: DW_CFA_register: r14 in r16 (f0); eu-readelf: register r14 (r14) in r16 (r14)
R
diff expected output || { echo 'another output now'; exit 1; }
echo 'as described'
