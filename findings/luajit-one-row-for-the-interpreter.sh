#!/usr/bin/env bash
# LuaJIT 2.1 (Debian's 2.1.0~beta3+git20220320) writes the `.eh_frame` of its interpreter by itself: one FDE with one row, CFA = rsp+80, for 16 KiB
# with 240 symbols. It is right in the interpreter. Functions that C calls lie in the same FDE: at the first instructions of `lj_vm_call`
# and `lj_vm_cpcall`, by which C enters Lua, and in `lj_vm_cpuid`, which has no such frame at all, the CFA is rsp+8 and the row 72 too high.
#
# Expected: an FDE for each function that is called, with rows for its pushes: a row holds for each instruction up to the next row (DWARF
# 5, 6.4.1), and an FDE is for one function (6.4). The FDE of `lj_vm_ffi_call`, right after it, also has one row for all of it, rbp+16.
#
# What follows: samples at the entries and exits of Lua calls, and breakpoints on these functions, have a wrong caller. Tools that find functions by
# FDEs find one for the whole interpreter.
#
# Needs: ar, nm, readelf and objdump for x86-64, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
version=2.1.0~beta3+git20220320+dfsg-4.1+deb12u1
apt-get download -qq libluajit-5.1-dev=$version 2>apt || { cat apt; exit 1; }
dpkg-deb -x libluajit-5.1-dev_*.deb unpacked
ar x unpacked/usr/lib/x86_64-linux-gnu/libluajit-5.1.a lj_vm.o
readelf -wF lj_vm.o >rows
grep -A2 FDE rows
objdump -d --no-show-raw-insn lj_vm.o >code

# entry SYMBOL: the stack pointer's distance from its value at the entry, where it is largest in the function's straight-line start
moved() {
  awk -v name="<$1>:" '
    $2 == name { here = 1; next } !here { next }
    /push / { n += 8 } /sub +\$0x[0-9a-f]+,%rsp/ { n += 40; exit } /ret|jmp|call/ { exit }
    END { print n + 8 }' code
}
for symbol in lj_vm_call lj_vm_cpcall lj_vm_cpuid; do
  place=$((16#$(nm lj_vm.o | awk -v name="$symbol" '$3 == name { print $1 }')))
  [ $place -lt $((16#4045)) ] || { echo 'outside of the FDE now'; exit 1; }
  echo "$symbol: CFA at its entry rsp+8, after its prologue rsp+$(moved $symbol), by its row rsp+80" | tee -a results
done
cat >expected <<'R'
lj_vm_call: CFA at its entry rsp+8, after its prologue rsp+80, by its row rsp+80
lj_vm_cpcall: CFA at its entry rsp+8, after its prologue rsp+80, by its row rsp+80
lj_vm_cpuid: CFA at its entry rsp+8, after its prologue rsp+16, by its row rsp+80
R
diff expected results || { echo 'other code now'; exit 1; }
grep -q 'pc=0000000000000000..0000000000004045' rows && [ "$(grep -cE '^0000000000000000 rsp\+80 ' rows)" = 1 ] &&
  [ "$(grep -cE '^[0-9a-f]{16} r' rows)" = 4 ] || { echo 'other rows now'; exit 1; }
echo 'as described'
