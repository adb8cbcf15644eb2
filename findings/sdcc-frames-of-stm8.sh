#!/usr/bin/env bash
# SDCC 4.2.0 for STM8, with --debug --out-fmt-elf, begins the rows of each FDE in `.debug_frame` with DW_CFA_set_loc to the address at
# which the FDE starts. llvm-dwarfdump 14 therefore has no rows for any function ("must be greater than the current row address"). With
# --model-large the CFA is a byte too low in all rows of all functions: it is sp+2 at the entry, as for a `call`, but functions are called by
# `callf`, which pushes three bytes. The ELF header says that the file is for IRIX.
#
# Expected: "The new location value is always greater than the current one" (DWARF 5, 6.4.2.1, DW_CFA_set_loc). "Typically, the CFA is
# defined to be the value of the stack pointer at the call site in the previous frame" (6.4), and the rule for the caller's stack
# pointer counts from it. EI_OSABI 8 is ELFOSABI_IRIX (gABI, "ELF Header"); 0 is for no system.
#
# What follows: in the large model, each frame of a trace has an error of one byte more than the frame before.
#
# Needs: readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 40 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in sdcc=4.2.0+dfsg-1 sdcc-libraries=4.2.0+dfsg-1 llvm-14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
export PATH=$work/unpacked/usr/bin:$PATH
cat >program.c <<'C'
volatile int n;
int add(int a) { return a + n; }
int twice(int a) { return add(a) + add(a + 1); }
void main(void) { n = twice(1); }
C

# compile MODEL: prints the CFA at each function's entry, and how `twice` calls and returns
compile() {
  sdcc -mstm8 "--model-$1" --debug --out-fmt-elf -Iunpacked/usr/share/sdcc/include -Lunpacked/usr/share/sdcc/lib/stm8 program.c -o program.elf
  readelf -wf program.elf >cfi 2>/dev/null
  fdes=$(grep -c ' FDE ' cfi)
  starts=$(grep -A1 ' FDE ' cfi | tr '\n' ' ' | grep -oE 'pc=([0-9a-f]{8})\.\.[0-9a-f]* +DW_CFA_set_loc: \1' | wc -l)
  entry=$(grep 'DW_CFA_def_cfa:' cfi | sort -u)
  calls=$(grep -oE '(callf?	_add|ret[f]?$)' program.rst | sort -u | tr '\t\n' '  ')
  errors=$(LD_LIBRARY_PATH=$libraries unpacked/usr/lib/llvm-14/bin/llvm-dwarfdump --debug-frame program.elf 2>&1 >/dev/null |
    grep -c 'must be greater than the current row address' || true)
  printf '%s: %s FDEs, %s begin with set_loc to their start, rows refused by llvm-dwarfdump: %s; at entries%s; %s\n' \
    "$1" "$fdes" "$starts" "$errors" "$entry" "$calls"
}
sdcc --version | head -n 1
compile medium
[ "$fdes $starts $errors $entry $calls" = '3 3 3   DW_CFA_def_cfa: r8 ofs 2 call _add ret ' ] || { echo 'another output now'; exit 1; }
grep -A40 ' FDE .*pc=00008029' cfi | sed '/ CIE/,$d'
readelf -h program.elf 2>/dev/null | grep -E 'OS/ABI:.*IRIX'
compile large
[ "$fdes $starts $errors $entry $calls" = '3 3 3   DW_CFA_def_cfa: r8 ofs 2 callf _add retf ' ] || { echo 'another output now'; exit 1; }
echo 'as described'
