#!/usr/bin/env bash
# gcc 12 for x86-64 with -mindirect-branch=thunk-inline writes "CFA = rsp+16" into a function at each indirect call, whatever frame the function has,
# and does not take it back: the row holds for the call and for the code after it. In a function with a frame of 72 bytes an exception
# that comes out of the call ends the program ("terminate called"), and a debugger's trace ends or goes astray there.
#
# Expected: CFA = rsp+80 at the call. The 16 is right in a thunk that is a function of its own (-mindirect-branch=thunk, by which the
# exception is caught). Inside of a function it is the frame's 80 and 16 bytes for the two calls of the thunk, up to its `ret`. "The table is
# exact at each instruction boundary" (gcc's manual, -fasynchronous-unwind-tables); a row holds up to the next (DWARF 5, 6.4.1).
#
# What follows: libraries that are compiled with this option take exceptions away from programs, as soon as one passes a callback.
#
# Needs: x86-64 Linux, g++ (to link), apt-get with the package lists of Debian 12, dpkg-deb. About 12 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq g++-12=12.2.0-14+deb12u1 2>apt || { cat apt; exit 1; }
dpkg-deb -x g++-12_*.deb unpacked
cat >program.cc <<'C'
extern "C" int puts(const char *);
__attribute__((noipa)) void thrower(char *p) { if (p[0]) throw 1; }
__attribute__((noipa)) int through(void (*call)(char *), int a) { char b[64] = { char(a) }; call(b); return b[1]; }
int main(int count, char **) {
  try { through(thrower, count); puts("no exception"); } catch (int) { puts("caught"); }
}
C
for option in keep thunk thunk-inline; do
  unpacked/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -quiet -O2 -mindirect-branch=$option program.cc -o $option.s
  g++ $option.s -o $option
  sed -n '/^_Z7through/,/cfi_endproc/p' $option.s >function
  # The CFA's offset by the rows, and by what the code has pushed, at the call that leaves the function.
  row=$(awk '/cfi_def_cfa_offset/ { cfa = $2 } /^\t(call|jmp)\t(\*%|__x86|\.LIND0)/ { print cfa }' function | tail -n 1)
  code=$(awk '/subq.*%rsp/ { gsub(/[^0-9]/, "", $2); print $2 + 8; exit }' function)
  status=0
  output=$({ ./$option; } 2>&1 | head -n 1) || status=$?
  echo "-mindirect-branch=$option: CFA at the call rsp+$code, by its row rsp+$row; \"$output\"" | tee -a results
done
sed -n '/^_Z7through/,/cfi_endproc/p' thunk-inline.s | grep -vE 'movups|pxor'
cat >expected <<'R'
-mindirect-branch=keep: CFA at the call rsp+80, by its row rsp+80; "caught"
-mindirect-branch=thunk: CFA at the call rsp+80, by its row rsp+80; "caught"
-mindirect-branch=thunk-inline: CFA at the call rsp+80, by its row rsp+16; "terminate called after throwing an instance of 'int'"
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
