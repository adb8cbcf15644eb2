#!/usr/bin/env bash
# Zig 0.17.0's Mach-O linker lets `__unwind_info` end before the last functions of x86-64 programs: the sentinel of the index is where
# the last entry starts, plus the *sum* of the lengths of the functions that it stands for and 1 for each but the first. The padding
# between them is not in the sum. Functions after the sentinel have no unwind information, although they are those of the last entry.
# On arm64, which needs no padding there, the sentinel is as many bytes after the last function.
#
# Expected: the sentinel is the end of the code that the table covers, by which a lookup rejects PCs (`mach-o/compact_unwind_encoding.h`,
# `functionOffset` of the first-level index). An entry without a personality is valid up to the next one, so its functions may have gaps.
#
# What follows: exceptions through the last functions find no handler, and traces end there. The number of bytes that
# are lost depends on how many functions with equal encodings are last.
#
# `zig cc` uses this linker for all programs for macOS. Needs: x86-64 Linux, python3 with pip. About 100 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py ziglang==0.17.0 lief==1.0.0 2>pip || { cat pip; exit 1; }
export PYTHONPATH=$work/py ZIG_GLOBAL_CACHE_DIR=$work/cache ZIG_LOCAL_CACHE_DIR=$work/cache
printf 'zig %s\n' "$(python3 -m ziglang version)"

{
  printf 'extern int putchar(int);\n'
  printf 'int main(void) { return putchar(65) != 65; }\n'
  for number in 0 1 2 3 4 5 6 7 8 9; do
    printf '__attribute__((used)) int f%s(int x) { return putchar(x + %s) + %s; }\n' "$number" "$number" "$number"
  done
} >functions.c
cat >compare.py <<'PY'
import lief, struct, sys

target, path = sys.argv[1:]
lief.logging.disable()
binary = lief.parse(path)
sections = {s.name: s for s in binary.sections}
table = bytes(sections["__unwind_info"].content)
at, count = struct.unpack_from("<II", table, 20)
index = [struct.unpack_from("<III", table, at + 12 * n) for n in range(count)]
sentinel = binary.imagebase + index[-1][0]
functions = sorted({(s.value, s.name) for s in binary.symbols if s.name[:2] == "_f" and s.value})
first, last = functions[0], functions[-1]
lost = [name for value, name in functions if value >= sentinel]
print(f"{target}: {len(functions)} functions from {first[0]:#x} to {last[0]:#x}; the index ends at {sentinel:#x};",
      f"not covered: {' '.join(lost) or 'none'}")
behind = min(s.value for s in binary.symbols if s.value > last[0]) if target[0] == "a" else None
assert index[-1][1] == 0, "no sentinel"
if target.startswith("x86_64"):
    assert lost, "all functions are covered now"
else:
    print(f"  the symbol behind them is at {behind:#x}, {sentinel - behind} bytes before the index's end")
    assert sentinel > behind, "the end of a function now"
PY
for target in x86_64-macos aarch64-macos; do
  python3 -m ziglang cc -target "$target" -O2 -fno-asynchronous-unwind-tables -funwind-tables -o "$target" functions.c
  python3 compare.py "$target" "$target"
done
echo 'as described'
