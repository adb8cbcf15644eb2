#!/usr/bin/env bash
# clang 19 for AArch64 writes no rows for the parts of a function that it has moved out by -fbasic-block-sections=list=FILE: `function.cold` has an
# FDE of its own that is empty, although it runs in the function's frame. By it the CFA is sp and the return address in x30, which after a
# call is an address in this part. The signature of x30 (-mbranch-protection=pac-ret) is missing too. For x86-64 the parts have all rules.
# (Parts that -fsplit-machine-functions makes of landing pads are the same. 22 writes the rows.)
#
# Expected: the CFA, the saved registers and the state of the signature again at the start of the part: the rules of an FDE start from those of its
# CIE, whatever function the code belongs to (DWARF 5, 6.4.3). -fasynchronous-unwind-tables is on.
#
# What follows: a trace or an exception from a call in such a part finds the same frame over and over.
#
# Needs: gcc (for libraries of clang), readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 40 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in clang-19=1:19.1.7-3~deb12u1 libclang-cpp19=1:19.1.7-3~deb12u1 libllvm19=1:19.1.7-3~deb12u1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-19/lib
cat >function.c <<'C'
int get(int);
int function(int a) { if (get(a) == 4) { get(1); get(2); return get(3) + a; } return get(a + 1) - a; }
C
printf 'v1\nf function\nc 0 2\n' >hot
for target in x86_64-linux-gnu aarch64-linux-gnu; do
  for options in '' '-mbranch-protection=pac-ret'; do
    [ "$target$options" != x86_64-linux-gnu-mbranch-protection=pac-ret ] || continue
    unpacked/usr/lib/llvm-19/bin/clang --target=$target $options -O2 -fasynchronous-unwind-tables -fbasic-block-sections=list=hot \
      -S function.c -o function.s
    sed -n '/^function.cold:/,/cfi_endproc/p' function.s >part
    # The directives before the first call of the part.
    echo "$target $options: $(sed '/\t\(call\|bl\)/q' part | grep -cE 'cfi_(def_cfa|offset|negate)' || true) rules before the first call" |
      tr -s ' ' | tee -a results
  done
done
cat part
unpacked/usr/lib/llvm-19/bin/clang --target=aarch64-linux-gnu -O2 -fasynchronous-unwind-tables -fbasic-block-sections=list=hot -c function.c -o function.o
readelf -wF function.o | sed -n '/FDE/,$p'
cat >expected <<'R'
x86_64-linux-gnu : 2 rules before the first call
aarch64-linux-gnu : 0 rules before the first call
aarch64-linux-gnu -mbranch-protection=pac-ret: 0 rules before the first call
R
diff expected results || { echo 'other rows now'; exit 1; }
echo 'as described'
