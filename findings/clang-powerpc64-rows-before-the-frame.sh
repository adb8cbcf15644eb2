#!/usr/bin/env bash
# clang 19 for powerpc64le begins the row of a frame right after `mflr 0`, before the instructions that make the frame. For four instructions,
# up to the `stdu` that moves the stack pointer, the CFA is 112 bytes too high here. For six, up to the store of the link register, the
# return address is a word that nothing has written yet. The rules of r28 to r30 begin before their stores too.
# (14 and 22 do the same. For powerpc64, big-endian, the row comes after `stdu`, and the rules of the registers are early all the same.)
#
# Expected: a row begins at the first instruction that it is true for, and holds up to the next (DWARF 5, 6.4.1), so the CFA changes after
# `stdu`, and each rule comes after its store, as gcc 12 writes them for the same source. -fasynchronous-unwind-tables is on.
#
# What follows: samples of a profiler and signals in prologues of clang's and Rust's code have a wrong caller. Calls are not
# concerned, so that exceptions work.
#
# Needs: gcc (for libraries of gcc's cross compiler), apt-get with the package lists of Debian 12, dpkg-deb. About 50 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in clang-19=1:19.1.7-3~deb12u1 libclang-cpp19=1:19.1.7-3~deb12u1 libllvm19=1:19.1.7-3~deb12u1 \
  cpp-12-powerpc64le-linux-gnu=12.2.0-14cross1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-19/lib
cat >function.c <<'C'
int callee(int, char *);
int function(int a) { char b[32]; int r = callee(a, b); return r + callee(b[1], b) + a; }
C
unpacked/usr/lib/llvm-19/bin/clang --target=powerpc64le-linux-gnu -O2 -fasynchronous-unwind-tables -S function.c -o clang.s
unpacked/usr/lib/gcc-cross/powerpc64le-linux-gnu/12/cc1 -quiet -O2 -fasynchronous-unwind-tables function.c -o gcc.s

# Prints how many instructions each row is late (positive) or early (negative): the frame's, that of the link register and that of r30.
places() {
  awk '
    /^\t\.cfi_startproc/ { here = 1 } /bl callee/ { exit }
    here && /^\t[a-z]/ { n++ }
    /\tstdu 1,/ { code["frame"] = n } /\tstd 0,/ { code["lr"] = n } /\tstd 30,/ { code["r30"] = n }
    /\.cfi_def_cfa_offset/ { row["frame"] = n }
    /\.cfi_offset (lr|65),/ { row["lr"] = n } /\.cfi_offset (r30|30),/ { row["r30"] = n }
    END { print "frame " row["frame"] - code["frame"] ", lr " row["lr"] - code["lr"] ", r30 " row["r30"] - code["r30"] }' "$1"
}
sed -n '/mflr 0/,/bl callee/p' clang.s
for compiler in gcc clang; do echo "$compiler: $(places $compiler.s)"; done
[ "$(places clang.s)" = 'frame -4, lr -6, r30 -3' ] || { echo 'clang: other rows now'; exit 1; }
[[ "$(places gcc.s)" =~ ^frame\ [0-9]+,\ lr\ [0-9]+,\ r30\ [0-9]+$ ]] || { echo 'gcc: other rows now'; exit 1; }
echo 'as described'
