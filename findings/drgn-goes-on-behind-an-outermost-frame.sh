#!/usr/bin/env bash
# drgn 0.3.0 does not end a walk of a user space process's stack at a frame whose return address is undefined: it adds a frame without
# a program counter, and goes on from there by the frame pointer. For rbp it takes the value that a caller would have. Here a
# function marks itself as the outermost one, and the trace goes on with `main`, two calls further out; `outer` is left out.
#
# Expected: if the rule of the return address column is "undefined", there is no caller and the virtual unwind is complete (DWARF 5,
# 6.4.4). gdb 13 ends there. Frame pointers are a guess for code without CFI, and this code has it.
#
# Needs: x86-64 Linux, gcc, gdb (for a core file), python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py drgn==0.3.0 2>pip || { cat pip; exit 1; }
export PYTHONPATH=$work/py

frame() {  # a function $1 with a frame pointer, that calls $2
  cat <<S
.type $1, @function
$1: .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register rbp
  call $2
  pop %rbp
  .cfi_def_cfa rsp, 8
  ret
  .cfi_endproc
  .size $1, . - $1
S
}
{
  printf '.globl _start\n_start: .cfi_startproc\n.cfi_undefined rip\nxor %%ebp, %%ebp\ncall main\nhlt\n.cfi_endproc\n'
  frame main outer
  frame outer entry
  printf '.type entry, @function\nentry: .cfi_startproc\n.cfi_undefined rip\ncall leaf\nhlt\n.cfi_endproc\n.size entry, . - entry\n'
  printf '.type leaf, @function\nleaf: .cfi_startproc\nud2\n.cfi_endproc\n.size leaf, . - leaf\n'
} >walk.s
gcc -nostdlib -static walk.s -o walk
gdb -nx -q -batch -ex 'break *leaf' -ex run -ex backtrace -ex 'gcore core' walk >gdb.out 2>&1 </dev/null
grep '^#' gdb.out

cat >trace.py <<'PY'
import drgn
program = drgn.Program()
program.set_core_dump("core")
try:
    program.load_debug_info(["walk"])
except drgn.MissingDebugInfoError:
    pass  # there is no .debug_info; the file is used for its CFI and symbols all the same

def name(frame):
    try:
        return frame.symbol().name
    except LookupError as error:
        return f"({error})"

names = [name(frame) for frame in next(iter(program.threads())).stack_trace()]
print("drgn:", names)
assert names[:2] == ["leaf", "entry"] and "main" in names[3:] and "outer" not in names, "another walk now"
PY
python3 trace.py 2>errors || { cat errors; exit 1; }
[ "$(grep -c '^#.*\(leaf\|entry\)' gdb.out)" = 2 ] && ! grep -q '^#.*main' gdb.out || { echo 'gdb goes on too'; exit 1; }
echo 'as described'
