#!/usr/bin/env bash
# LIEF 1.0.0, on x86-64, does not read `.eh_frame_hdr` and `.eh_frame` of big-endian files in the file's byte order. For a valid shared
# object for s390x it says "Failed to read FDE length" and "Failed to read CIE length" several times, raises no exception, and
# `Binary.functions` has only what the symbol tables name: the static function, which only CFI describes, is missing.
#
# Expected: the three functions of the three FDEs, as from the same source for AArch64. The fields are encoded as DW_EH_PE_udata4 and
# DW_EH_PE_sdata4 (Linux Standard Base 5.0, Core, "The .eh_frame_hdr section"), values in the byte order of the file (gABI, EI_DATA).
# LIEF reads the ELF header, sections and symbols of the same file in the right order.
#
# Needs: python3 with pip, and gcc and binutils for s390x-linux-gnu and aarch64-linux-gnu.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --no-deps --target "$work/py" lief==1.0.0 2>"$work/pip" || { cat "$work/pip"; exit 1; }
export PYTHONPATH=$work/py
cd "$work"

cat >f.c <<'C'
int a(int x) { return x + 1; }
__attribute__((noinline)) static int hidden(int x) { return a(x) * 3; }
int c(int x) { return hidden(x) + hidden(x + 1); }
C
cat >functions.py <<'PY'
import lief, sys
print(len(lief.parse(sys.argv[1]).functions))
PY

for target in aarch64 s390x; do
  "$target-linux-gnu-gcc" -O1 -shared -fPIC -nostdlib f.c -o "$target.so"
  "$target-linux-gnu-strip" "$target.so"
  "$target-linux-gnu-readelf" -wf "$target.so" 2>/dev/null | grep -c ' FDE ' >"$target.fdes"
  python3 functions.py "$target.so" >"$target.functions" 2>"$target.errors"
  printf '%s: %s FDEs, functions that LIEF finds: %s\n' "$target" "$(cat "$target.fdes")" "$(cat "$target.functions")"
  sort "$target.errors" | uniq -c
done

[ "$(cat aarch64.fdes aarch64.functions s390x.fdes s390x.functions | tr '\n' ' ')" = '3 3 3 2 ' ] ||
  { echo 'another number of functions now'; exit 1; }
[ ! -s aarch64.errors ] && grep -q 'Failed to read FDE length' s390x.errors || { echo 'other messages now'; exit 1; }
echo 'as described'
