#!/usr/bin/env bash
# gcc 12 for x86-64 with -mcall-ms2sysv-xlogues, which saves the registers of a function with the attribute ms_abi by a shared stub, writes no rule
# for any of them: only the CFA is described. The function then changes rbx, and an unwinder gives this rbx to the caller. Here
# `main` catches an exception that has passed such a function, and a variable that was 4711 before the call is 7.
#
# Expected: the rule of each register that the stub has stored, as gcc writes them without the option. A register without a rule has the
# value of the previous frame by the ABI's default, which is for registers that a function leaves alone (DWARF 5, 6.4.1, "same value" and
# "undefined"; System V ABI, AMD64, "Register Usage"). At the function's end gcc writes `.cfi_restore` for the registers, so that it knows them.
#
# What follows: values in debuggers are wrong one frame further out, and exceptions damage the frames that they come to. The option is made
# for Wine and for code that calls from Windows' convention into Linux'.
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
extern "C" int printf(const char *, ...);
__attribute__((noipa)) void thrower(int a) { if (a) throw a; }
__attribute__((noipa, ms_abi)) int through(int a) { thrower(a); return a + 1; }
int main() {
  long kept = 4711;
  asm volatile("" : "+b"(kept));
  try { through(7); } catch (int) { }
  asm volatile("" : "+b"(kept));
  printf("%ld\n", kept);
}
C
for option in -mno-call-ms2sysv-xlogues -mcall-ms2sysv-xlogues; do
  unpacked/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -quiet -O2 $option program.cc -o program.s
  g++ program.s -o program
  sed -n '/^_Z7through/,/cfi_endproc/p' program.s >function
  echo "$option: registers with a rule: $(grep -c 'cfi_offset' function || true), restored at the end: $(
    grep -c 'cfi_restore ' function || true); the variable is $(./program)" | tee -a results
done
cat function
cat >expected <<'R'
-mno-call-ms2sysv-xlogues: registers with a rule: 13, restored at the end: 13; the variable is 4711
-mcall-ms2sysv-xlogues: registers with a rule: 0, restored at the end: 7; the variable is 7
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
