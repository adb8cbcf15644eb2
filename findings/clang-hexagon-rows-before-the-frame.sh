#!/usr/bin/env bash
# clang 19 for Hexagon gives a function's first instruction the row of the finished frame if the instruction that makes the frame shares its
# packet with others: CFA = r30+8, the return address at CFA-4, at the first PC. There r30 is still the caller's, so the row leads to the
# caller's caller, and r16 and r17 are read from the caller's frame. If `allocframe` is alone in its packet, the row comes after it.
# (22 does the same.)
#
# Expected: a packet is one step, so the row begins after the first packet, and before it the CIE's row counts: the return address in r31
# (DWARF 5, 6.4.1: a row holds from its location up to the next). -fasynchronous-unwind-tables is on.
#
# What follows: which rows are right depends on how the packets were filled. Samples and breakpoints at a function's first PC lose the caller.
#
# The epilogue, `dealloc_return`, needs no row: it restores and returns in one packet.
#
# Needs: gcc (for libraries of clang), apt-get with the package lists of Debian 12, dpkg-deb. About 55 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in clang-19=1:19.1.7-3~deb12u1 libclang-cpp19=1:19.1.7-3~deb12u1 libllvm19=1:19.1.7-3~deb12u1 llvm-19=1:19.1.7-3~deb12u1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-19/lib
bin=$work/unpacked/usr/lib/llvm-19/bin
cat >functions.c <<'C'
int callee(int, char *);
int array(int a) { char b[32]; int r = callee(a, b); return r + callee(b[1], b) + a; }
int variable(int a) { char b[a]; int r = callee(a, b); return r + callee(b[1], b) + a; }
C
"$bin/clang" --target=hexagon-linux -O1 -fasynchronous-unwind-tables -ffunction-sections -c functions.c -o functions.o
for function in array variable; do
  "$bin/llvm-objdump" -d --no-show-raw-insn --section=.text.$function functions.o | sed -n '/<'$function'>/,/ }/p'
done
"$bin/clang" --target=hexagon-linux -O1 -fasynchronous-unwind-tables -S functions.c -o functions.s

# first FUNCTION: whether the row of the frame comes before or after the first packet, and whether `allocframe` is alone in that packet
first() {
  awk -v name="$1:" '
    $1 == name { here = 1 } !here { next }
    /def_cfa r30/ { row = packets ? "after" : "before" }
    /^\t{/ { packets++ } packets == 1 && /^\t\t/ { n++ } packets == 1 && /allocframe/ { frame = 1 }
    /^\t}/ && packets == 1 { count = n } /call/ { exit }
    END { print "row " row " the first packet, of " count (frame ? " with allocframe" : "") }' functions.s
}
for function in array variable; do echo "$function: $(first $function)"; done
[ "$(first array)" = 'row before the first packet, of 3 with allocframe' ] || { echo 'another row now'; exit 1; }
[ "$(first variable)" = 'row after the first packet, of 1 with allocframe' ] || { echo 'another row now'; exit 1; }
"$bin/clang" --target=hexagon-linux -O1 -g -c functions.c -o debug.o
"$bin/llvm-dwarfdump" --debug-frame debug.o 2>/dev/null | grep -E '^ +0x[0-9a-f]+: CFA' | tee rows
head -n 1 rows | grep -q '0x0: CFA=R30+8:.*R31=\[CFA-4\]' || { echo 'another first row now'; exit 1; }
echo 'as described'
