#!/usr/bin/env bash
# llvm-readobj 14 --unwind prints nothing of the `.ARM.exidx` of a big-endian ARM file: after the name of the file it ends, without a
# message and with status 0, as for a file that has no unwind information. Of the same source for little-endian ARM it prints all entries.
# (23.1.4 does the same, although ld.lld 23.1.4 links such files.)
#
# Expected: the entries, or a message. The tables are the same in both byte orders, words in the byte order of the file's data
# ("Exception Handling ABI for the Arm Architecture", "Index table entries"; gABI, EI_DATA). readelf prints them.
#
# Needs: binutils (for its libraries), apt-get with the package lists of Debian 12, dpkg-deb. About 40 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in binutils-arm-linux-gnueabihf=2.40-2 llvm-14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
arm=$work/unpacked/usr/bin/arm-linux-gnueabihf
cat >program.s <<'S'
.syntax unified
.arch armv7-a
.global _start, __aeabi_unwind_cpp_pr0
.type _start, %function
_start: .fnstart
push {r4, lr}
.save {r4, lr}
bl _start
pop {r4, pc}
.fnend
__aeabi_unwind_cpp_pr0: bx lr
S
for order in EL EB; do
  "$arm-as" -$order program.s -o program.o
  "$arm-ld" -$order $([ $order = EL ] || echo --be8) program.o -o program
  status=0
  unpacked/usr/lib/llvm-14/bin/llvm-readobj --unwind program >out 2>messages || status=$?
  printf -- '-%s: %s; entries by readelf: %s, by llvm-readobj: %s; status %s, messages: "%s"\n' $order \
    "$("$arm-readelf" -h program | sed -n 's/.*Data: *//p')" "$("$arm-readelf" -u program | grep -c '^0x')" \
    "$(grep -c 'FunctionAddress' out || true)" "$status" "$(cat messages)" | tee -a results
done
cat >expected <<'R'
-EL: 2's complement, little endian; entries by readelf: 2, by llvm-readobj: 2; status 0, messages: ""
-EB: 2's complement, big endian; entries by readelf: 2, by llvm-readobj: 0; status 0, messages: ""
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
