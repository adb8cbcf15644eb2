#!/usr/bin/env bash
# GNU ld 2.40 for IA-64 with --gc-sections keeps each function that has unwind information, whether it is used or not. Only functions without
# it are removed: here `unused`, which has a `.save`, stays with all that it calls, and `plain`, the same without `.save`, goes.
#
# Expected: both go. An entry of `.IA_64.unwind` refers to its function, not the function to it ("Itanium Software Conventions and
# Runtime Architecture Guide", "Unwind Information"), so an entry is no use of a function. For `.eh_frame` ld knows that on all other
# architectures. With -r --gc-sections the same ld removes both functions.
#
# What follows: nearly all code has unwind information, so that --gc-sections has hardly an effect, and says nothing of it.
#
# Needs: apt-get with the package lists of Debian 12, dpkg-deb. About 3 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq binutils-ia64-linux-gnu=2.40-2 2>apt || { cat apt; exit 1; }
dpkg-deb -x binutils-ia64-linux-gnu_*.deb unpacked
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
ia64=$work/unpacked/usr/bin/ia64-linux-gnu

# function NAME SAVE CALL: writes a function in a section of its own
function_of() {
  printf '.section .text.%s,"ax"\n.proc %s\n.global %s\n%s:\n.prologue\n%s\nalloc r33=ar.pfs,1,2,1,0\n.body\n%s\nbr.ret.sptk.many b0\n.endp %s\n' \
    "$1" "$1" "$1" "$1" "$2" "$3" "$1"
}
{
  function_of start '.save ar.pfs, r33' ''
  function_of unused '.save ar.pfs, r33' 'br.call.sptk.many b0=library'
  function_of plain '' ''
  function_of library '' ''
} >functions.s
"$ia64-as" functions.s -o functions.o
"$ia64-readelf" -u functions.o | grep -E '^Unwind section'
for options in '' '--gc-sections' '-r --gc-sections'; do
  "$ia64-ld" $options -e start functions.o -o out
  printf 'ld %s:' "$options" >>results
  "$ia64-nm" out | sed -n 's/.* T / /p' | sort | tr -d '\n' >>results
  echo >>results
done
cat results
cat >expected <<'R'
ld : library plain start unused
ld --gc-sections: library start unused
ld -r --gc-sections: start
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
