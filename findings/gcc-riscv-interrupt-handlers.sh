#!/usr/bin/env bash
# gcc 12 for RISC-V describes an interrupt handler as a function that was called: the return address column is 1 (ra), and its rule leads
# to the ra that the handler has saved for the code that it interrupted. So an unwinder goes on where the interrupted function
# would have returned to, with the registers of that function. There is no augmentation "S", and no rule for mepc. (clang 14 and
# 19 do the same.)
#
# Expected: `mret`, by which the handler ends, goes to mepc (RISC-V privileged architecture, "Trap-Return Instructions"). The return
# address column is the column of the rule table that has the return address, and need not be a real register (DWARF 5, 6.4.1). CSRs
# have the columns 4096 to 8191 ("RISC-V DWARF Specification", "DWARF Register Numbers"), which is 4096+0x341 for mepc.
#
# What follows: traces from handlers leave out the function that was interrupted, or have it at the place of its last call.
#
# Needs: gcc (for its libraries), apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in cpp-12-riscv64-linux-gnu=12.2.0-13cross1 binutils-riscv64-linux-gnu=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
riscv=$work/unpacked/usr/bin/riscv64-linux-gnu
cat >handler.c <<'C'
extern void acknowledge(void);
__attribute__((interrupt)) void handler(void) { acknowledge(); }
C
unpacked/usr/lib/gcc-cross/riscv64-linux-gnu/12/cc1 -quiet -march=rv64imac -mabi=lp64 -O2 -fasynchronous-unwind-tables handler.c -o handler.s
"$riscv-as" -march=rv64imac -mabi=lp64 handler.s -o handler.o
"$riscv-objdump" -d handler.o | grep -E 'sp,sp|ra,|jalr|mret'

"$riscv-readelf" -wf handler.o >cfi
grep -E 'Augmentation:|Return address column|: r1 |r4929' cfi
[ "$(grep -c ' CIE' cfi) $(grep -c 'Return address column: 1$' cfi) $(grep -c 'Augmentation: *"zR"' cfi)" = '1 1 1' ] ||
  { echo 'another CIE now'; exit 1; }
grep -q 'DW_CFA_offset: r1 (ra) at cfa-8' cfi || { echo 'another rule of ra now'; exit 1; }
! grep -q 'r4929' cfi || { echo 'a rule of mepc now'; exit 1; }
"$riscv-objdump" -d handler.o | grep -q 'mret' || { echo 'another return now'; exit 1; }
echo 'as described'
