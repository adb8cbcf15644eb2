#!/usr/bin/env bash
# clang 14 for x86-64 gives an interrupt handler with an error code the rows of a function that was called: the error code is taken for the
# return address. Before the registers are saved there is also a `push rax` without a row, so that in the body the CFA is 16 bytes too low,
# and the return address is the word that was pushed to align the stack. (19.1.7 and 23.1.4 do the same.)
#
# Expected: as gcc 12 has it for the same source: at the handler's first instruction the CFA is rsp+16, because the processor has pushed the
# error code behind the return address (clang's and gcc's manuals, attribute "interrupt": the second argument is the error code), and each
# row holds up to the next (DWARF 5, 6.4.1). -fasynchronous-unwind-tables is on.
#
# What follows: a trace from a page fault handler does not find the code that has faulted. Handlers without an error code are right.
#
# Needs: x86-64 Linux, gcc, readelf, objdump, python3, apt-get with the package lists of Debian 12, dpkg-deb. About 90 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in clang-14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libllvm14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
cat >handler.c <<'C'
struct frame { unsigned long ip, cs, flags, sp, ss; };
extern volatile unsigned long code;
__attribute__((interrupt)) void fault(struct frame *frame, unsigned long error) { code = error; }
C
options='-O2 -mgeneral-regs-only -fasynchronous-unwind-tables -c handler.c -o'
gcc $options gcc.o
unpacked/usr/lib/llvm-14/bin/clang $options clang.o

# At each instruction: what it adds to rsp, and by how much the row's CFA is wrong. The right one is rsp+16 at the entry.
cat >compare.py <<'PY'
import re, subprocess, sys
rows = [(int(m[1], 16), int(m[2])) for m in re.finditer(r'^([0-9a-f]{16}) rsp\+(\d+)',
        subprocess.check_output(['readelf', '-wF', sys.argv[1]], text=True).split(' FDE ')[1], re.M)]
right, wrong = 16, []
for line in subprocess.check_output(['objdump', '-d', '-M', 'intel', '--no-show-raw-insn', sys.argv[1]], text=True).splitlines():
    at = re.match(r'\s+([0-9a-f]+):\s+(.*?)\s*$', line)
    if not at:
        continue
    row = max(r for r in rows if r[0] <= int(at[1], 16))[1]
    print(f'  {at[2]:40} row: rsp+{row:<3} right: rsp+{right}')
    wrong.append(right - row)
    step = re.match(r'(push|pop|add +rsp,0x([0-9a-f]+))', at[2])
    if step:
        right += {'push': 8, 'pop': -8}.get(step[1], -int(step[2] or '0', 16))
open(sys.argv[1] + '.wrong', 'w').write(' '.join(map(str, sorted(set(wrong)))))
PY
gcc --version | head -n 1
python3 compare.py gcc.o
unpacked/usr/lib/llvm-14/bin/clang --version | head -n 1
python3 compare.py clang.o
[ "$(cat gcc.o.wrong)" = 0 ] || { echo 'gcc: other rows now'; exit 1; }
[ "$(cat clang.o.wrong)" = '0 8 16' ] || { echo 'clang: other rows now'; exit 1; }
echo 'as described'
