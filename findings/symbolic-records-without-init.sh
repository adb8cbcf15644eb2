#!/usr/bin/env bash
# symbolic 13.9.0 (Sentry's library) makes Breakpad's "STACK CFI" records of an ELF file for s390x without any "STACK CFI INIT" record:
# no function has a range, a CFA or a rule for the stack pointer; only the later rows that store the return address leave a line each,
# with a rule relative to `.cfa`, which no record defines. There is no error, and the object's `features` say "unwind". The same comes
# out for RISC-V and LoongArch.
#
# Expected: INIT records, as for AArch64 from the same source, or an error that the architecture is not known. The Breakpad symbol file
# format ("STACK CFI records") has a line "STACK CFI address ..." only within the range of an INIT record before it.
#
# Needs: python3 with pip, and gcc for s390x-linux-gnu and aarch64-linux-gnu.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --target py symbolic==13.9.0 2>pip || { cat pip; exit 1; }
export PYTHONPATH=$work/py

cat >f.c <<'C'
int a(int x) { return x + 1; }
__attribute__((noinline)) static int b(int x) { return a(x) * 3; }
int c(int x) { return b(x) + b(x + 1); }
C
cat >records.py <<'PY'
import sys
from symbolic.cfi import CfiCache
from symbolic.debuginfo import Archive

for item in Archive.open(sys.argv[1]).iter_objects():
    text = CfiCache.from_object(item).open_stream().read()
    print(text[text.index(b"STACK") if b"STACK" in text else len(text):].decode().strip())
PY
for target in aarch64 s390x; do
  "$target-linux-gnu-gcc" -O1 -shared -fPIC -nostdlib f.c -o "$target.so"
  python3 records.py "$target.so" >"$target.records"
  echo "-- $target"
  cat "$target.records"
done
[ "$(grep -c '^STACK CFI INIT ' aarch64.records)" = 3 ] || { echo 'other records for AArch64'; exit 1; }
grep -q '^STACK CFI [0-9a-f]* .ra: .cfa ' s390x.records || { echo 's390x has no records at all now'; exit 1; }
! grep -q '^STACK CFI INIT ' s390x.records || { echo 's390x has INIT records now'; exit 1; }
echo 'as described'
