#!/usr/bin/env bash
# clang 19 for x86-64 Linux writes the row of `sub rsp, 320` after the instructions that save vector registers in the new area: in a function with the
# attribute ms_abi the CFA is 320 bytes too low at ten instructions, and in one with preserve_all at 16. Without vector registers to save,
# the row comes right after the `sub`. (14 and 22 do the same.)
#
# Expected: the row at the instruction after the `sub`, as gcc 12 writes it for the same source, since a row holds for each instruction up
# to the next (DWARF 5, 6.4.1). -fasynchronous-unwind-tables is on, as it is by default.
#
# What follows: samples and signals in these prologues have a wrong caller: a word of the new area, which is not written yet, is taken for the
# return address. ms_abi is what Wine and UEFI code is made of, preserve_all is for the rare path of a hot function.
#
# Needs: x86-64 Linux, gcc (also for libraries of clang), apt-get with the package lists of Debian 12, dpkg-deb. About 55 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in clang-19=1:19.1.7-3~deb12u1 libclang-cpp19=1:19.1.7-3~deb12u1 libllvm19=1:19.1.7-3~deb12u1 cpp-12=12.2.0-14+deb12u1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-19/lib
source() { printf 'void callee(int, char *);\n__attribute__((%s)) int function(int a) { char b[150]; callee(a, b); return a + b[1]; }\n' "$1"; }

# late ASSEMBLY: how many instructions lie between the `sub` of the stack pointer and its row
late() {
  awk '/^\tsubq\t\$[0-9]+, %rsp/ { seen = 1; next } seen && /\.cfi_(def_cfa|adjust_cfa)_offset/ { print n + 0; exit } seen && /^\t[a-z]/ { n++ }' "$1"
}
for attribute in sysv_abi ms_abi preserve_all; do
  source $attribute >function.c
  unpacked/usr/lib/llvm-19/bin/clang --target=x86_64-linux-gnu -O2 -S function.c -o clang.s
  echo "clang, $attribute: row $(late clang.s) instructions late" | tee -a results
  [ $attribute != ms_abi ] || sed -n '/^function:/,/call/p' clang.s
  [ $attribute != preserve_all ] || continue
  unpacked/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -O2 function.c -o gcc.s
  echo "gcc, $attribute: row $(late gcc.s) instructions late" | tee -a results
done
cat >expected <<'R'
clang, sysv_abi: row 0 instructions late
gcc, sysv_abi: row 0 instructions late
clang, ms_abi: row 10 instructions late
gcc, ms_abi: row 0 instructions late
clang, preserve_all: row 16 instructions late
R
diff expected results || { echo 'other rows now'; exit 1; }
echo 'as described'
