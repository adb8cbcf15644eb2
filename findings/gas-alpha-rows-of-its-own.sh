#!/usr/bin/env bash
# GNU as 2.40 for Alpha writes an `.eh_frame` for sources without any `.cfi_` directive: an FDE for each `.ent`, with the frame that `.frame`
# and `.mask` state. The row begins at `.prologue`, and there is no other one. Between the instruction that moves the stack pointer and
# `.prologue` the CFA is 32 bytes too low here, and after the instruction that moves it back 32 bytes too high.
#
# Expected: no CFI without `.cfi_startproc` (the assembler's manual, "CFI directives"), as GNU as for MIPS does with the same directives; or
# rows that are true: a row holds for each instruction up to the next (DWARF 5, 6.4.1).
#
# What follows: hand-written assembler for Alpha has CFI that its source does not show, and here it is wrong at 3 of 8 instructions. If the
# function has `.cfi_startproc`, nothing is added.
#
# Needs: apt-get with the package lists of Debian 12, dpkg-deb. About 7 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in binutils-alpha-linux-gnu=2.40-2 binutils-mips-linux-gnu=2.40-2cross2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
alpha=$work/unpacked/usr/bin/alpha-linux-gnu
mips=$work/unpacked/usr/bin/mips-linux-gnu
cat >alpha.s <<'S2'
.ent function
function:
.frame $30, 32, $26, 0
.mask 0x4000200, -32
lda $30, -32($30)
stq $26, 0($30)
stq $9, 8($30)
.prologue 0
nop
ldq $9, 8($30)
ldq $26, 0($30)
lda $30, 32($30)
ret $31, ($26), 1
.end function
S2
cat >mips.s <<'S2'
.set noreorder
.ent function
function:
.frame $29, 32, $31
.mask 0x80000000, -4
addiu $29, $29, -32
sw $31, 28($29)
lw $31, 28($29)
jr $31
addiu $29, $29, 32
.end function
S2
sed 's/^function:/&\n.cfi_startproc/; s/^\.end/.cfi_endproc\n&/' alpha.s >directives.s
"$alpha-as" alpha.s -o alpha.o
"$alpha-as" directives.s -o directives.o
"$mips-as" mips.s -o mips.o
"$alpha-objdump" -d --no-show-raw-insn alpha.o | grep -E '^ '
"$alpha-readelf" -wF alpha.o | sed -n '/FDE/,$p'
{
  echo "alpha: $("$alpha-readelf" -wF alpha.o | grep -E '^[0-9a-f]{16} r' | tail -n +2 | tr -s ' \n' ' ')"
  echo "alpha, with .cfi_startproc: $("$alpha-readelf" -wF directives.o | grep -cE '^[0-9a-f]{16} r30\+32') rows of the frame"
  echo "mips: $("$mips-readelf" -SW mips.o | grep -c eh_frame || true) sections .eh_frame"
} | tee results
cat >expected <<'R'
alpha: 0000000000000000 r30+0 u u 000000000000000c r30+32 c-24 c-32 
alpha, with .cfi_startproc: 0 rows of the frame
mips: 0 sections .eh_frame
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
