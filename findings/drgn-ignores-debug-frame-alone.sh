#!/usr/bin/env bash
# drgn 0.3.0 ignores the `.debug_frame` of a file that has no `.debug_info`, without a word about it, and walks by frame pointers: a
# function without one *and its caller* are missing from the trace. The same source assembled with -g gives the right trace, although
# the CFI is the same, byte for byte. `.eh_frame` is read in both cases.
#
# Expected: `.debug_frame` needs no other section (DWARF 5, 6.4.1, and Appendix B, where no other section leads to it or from it):
# an assembler writes it for `.cfi_sections .debug_frame` without -g. gdb 13 walks by it in both files.
#
# Needs: x86-64 Linux, gcc, gdb (also for the core file), binutils, python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py drgn==0.3.0 2>pip || { cat pip; exit 1; }
export PYTHONPATH=$work/py

cat >walk.s <<'S'
  .cfi_sections .debug_frame
  .globl _start; .type _start, @function
_start: .cfi_startproc
  .cfi_undefined rip
  xor %ebp, %ebp
  call outer
  hlt
  .cfi_endproc; .size _start, . - _start
  .type outer, @function
outer: .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register rbp
  call mid
  pop %rbp
  .cfi_def_cfa rsp, 8
  ret
  .cfi_endproc; .size outer, . - outer
  .type mid, @function
mid: .cfi_startproc
  sub $40, %rsp
  .cfi_def_cfa_offset 48
  call leaf
  add $40, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc; .size mid, . - mid
  .type leaf, @function
leaf: .cfi_startproc
  ud2
  .cfi_endproc; .size leaf, . - leaf
S
cat >trace.py <<'PY'
import drgn, sys
program = drgn.Program()
program.set_core_dump(sys.argv[1] + ".core")
try:
    program.load_debug_info([sys.argv[1]])
except drgn.MissingDebugInfoError:
    pass
names = []
for frame in next(iter(program.threads())).stack_trace():
    try:
        names.append(frame.symbol().name)
    except LookupError:  # the frame without a program counter behind _start
        break
print(" ".join(names))
PY
for name in alone with-info; do
  option=; [ "$name" = alone ] || option=-g
  gcc -nostdlib -static $option walk.s -o "$name"
  objcopy -O binary --only-section=.debug_frame "$name" "$name.frame" --set-section-flags .debug_frame=alloc
  gdb -nx -q -batch -ex 'break *leaf' -ex run -ex backtrace -ex "gcore $name.core" "$name" >"$name.gdb" 2>&1 </dev/null
  echo "$name: gdb: $(sed -n 's/^#.* \([a-z_]*\) ().*/\1/p' "$name.gdb" | uniq | tr '\n' ' ')"
  echo "$name: drgn: $(python3 trace.py "$name" 2>"$name.errors")"
done | tee seen
[ -s alone.frame ] && cmp alone.frame with-info.frame
grep -qx 'with-info: drgn: leaf mid outer _start' seen || { echo 'another walk with .debug_info'; exit 1; }
grep -qx 'alone: gdb: leaf mid outer _start ' seen || { echo 'gdb walks in another way'; exit 1; }
grep -qx 'alone: drgn: leaf _start' seen || { echo 'drgn walks in another way now'; exit 1; }
echo 'as described'
