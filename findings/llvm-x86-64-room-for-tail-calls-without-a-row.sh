#!/usr/bin/env bash
# LLVM 19 for x86-64 writes no row for the instruction that makes room for the arguments of a tail call: a function of the conventions tailcc or swifttailcc
# that calls one with more arguments on the stack, and saves a register, begins with `sub rsp, 16`, and the CFA stays at rsp+8. The rows of
# the pushes that follow are 16 too low as well; from the row of the frame's own `sub rsp` on the CFA is right.
#
# Expected: rsp+24 after the `sub`, and rsp+32 after the first push: a row holds for each instruction up to the next (DWARF 5, 6.4.1), and
# without such a call the same prologue has right rows. uwtable(async) is on, which is for traces from each instruction (LLVM's Language Reference).
#
# What follows: samples in prologues have a wrong caller. swifttailcc is the convention of Swift's async functions, and tailcc that of
# languages with guaranteed tail calls.
#
# Needs: gcc (for libraries of LLVM), apt-get with the package lists of Debian 12, dpkg-deb. About 45 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in llvm-19=1:19.1.7-3~deb12u1 libllvm19=1:19.1.7-3~deb12u1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-19/lib

# module CONVENTION ARGUMENTS: a function that tail calls one with ARGUMENTS
module() {
  types=$(printf 'i64,%.0s' $(seq "$2")); values=$(printf 'i64 %s,' $(seq $(($2 - 4))))
  printf 'declare %s i64 @target(%s)\ndeclare i64 @other(i64)\n' "$1" "${types%,}"
  printf 'define %s i64 @function(i64 %%a, i64 %%b, i64 %%c) uwtable(async) {\n  %%x = call i64 @other(i64 %%a)\n' "$1"
  printf '  %%r = tail call %s i64 @target(%si64 %%x, i64 %%a, i64 %%b, i64 %%c)\n  ret i64 %%r\n}\n' "$1" "$values"
}
# The CFA by the code, and by the row, after each instruction of the prologue that moves the stack pointer.
rows() {
  awk '
    function report() { if (moved) printf " %s:%d/%d", what, code, row }
    BEGIN { code = 8; row = 8 }
    /call/ { report(); exit }
    /^\t(pushq|subq\t\$[0-9]+, %rsp)/ {
      report(); moved = 1
      if ($1 == "pushq") { what = "push"; code += 8 } else { what = "sub"; gsub(/[^0-9]/, "", $2); code += $2 }
    }
    /cfi_def_cfa_offset/ { row = $2 } /cfi_adjust_cfa_offset/ { row += $2 }' function.s
}
for convention in tailcc swifttailcc; do
  for arguments in 6 9; do
    module $convention $arguments >function.ll
    unpacked/usr/lib/llvm-19/bin/llc -mtriple=x86_64-linux-gnu -O2 function.ll -o function.s
    echo "$convention, $arguments arguments:$(rows)" | tee -a results
  done
done
sed -n '/^function:/,/call/p' function.s
cat >expected <<'R'
tailcc, 6 arguments: push:16/16 push:24/24 push:32/32 sub:48/48
tailcc, 9 arguments: sub:24/8 push:32/16 push:40/24 push:48/32 sub:80/80
swifttailcc, 6 arguments: push:16/16 sub:32/32
swifttailcc, 9 arguments: sub:24/8 push:32/16 sub:64/64
R
diff expected results || { echo 'other rows now'; exit 1; }
echo 'as described'
