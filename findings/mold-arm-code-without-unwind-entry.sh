#!/usr/bin/env bash
# mold 1.10.1, on 32-bit ARM, writes no EXIDX_CANTUNWIND entry into `.ARM.exidx` for code without unwind information. In the index an entry
# holds up to the next one, so that such code has the entry of the function before it. Here `second` pushes four registers, and its unwind
# instructions are those of `_start`: pop {r4, r14}, which takes r5 for r4 and r6 for the return address. (3.0.0 does the same.)
#
# Expected: an entry of 1 at the start of `second`, as GNU ld, gold and ld.lld add it. An entry has the start of a function and not its
# end, and EXIDX_CANTUNWIND is the entry for a function that cannot be unwound ("Exception Handling ABI for the Arm Architecture",
# "Index table entries").
#
# What follows: a trace or an exception that comes to C or assembler code without unwind information does not end there, but goes on at
# a wrong address with wrong registers.
#
# Needs: apt-get with the package lists of Debian 12, dpkg-deb. About 35 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in binutils-arm-linux-gnueabihf=2.40-2 mold=1.10.1+dfsg-1 lld-14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
bin=$work/unpacked/usr/bin
arm=$bin/arm-linux-gnueabihf
ln -s "$work/unpacked/usr/lib/llvm-14/bin/lld" ld.lld

head='.syntax unified\n.arch armv7-a\n.text\n'
printf "$head"'.global _start
.type _start, %%function
_start: .fnstart
push {r4, lr}
.save {r4, lr}
bl second
pop {r4, pc}
.fnend\n' >first.s
printf "$head"'.global second
.type second, %%function
second: push {r5, r6, r7, lr}
bl third
pop {r5, r6, r7, pc}\n' >second.s
printf "$head"'.global third, __aeabi_unwind_cpp_pr0
.type third, %%function
third: .fnstart
bx lr
.fnend
.type __aeabi_unwind_cpp_pr0, %%function
__aeabi_unwind_cpp_pr0: bx lr\n' >third.s
for unit in first second third; do "$arm-as" "$unit.s" -o "$unit.o"; done

# link LINKER: the index of the program that the linker makes
link() {
  "$@" first.o second.o third.o -o program
  printf '%s:\n' "${1##*/}"
  "$arm-readelf" -u program | grep -E '^0x|pop'
  "$arm-readelf" -u program | grep -oE '<[^>]*>: (0x1 .*|0x80......)' >index
  has_entry=$(grep -c '<second>: 0x1 \[cantunwind\]' index || true)
}
for linker in "$arm-ld.bfd" "$arm-ld.gold" "$work/ld.lld"; do
  link "$linker"
  [ "$has_entry" = 1 ] || { echo 'no entry for second'; exit 1; }
done
link "$bin/mold" -m armelf_linux_eabi
[ "$has_entry" = 0 ] && grep -q '^<_start>: 0x80a8b0b0' index && grep -q '^<third>' index || { echo 'another index now'; exit 1; }
echo 'as described'
