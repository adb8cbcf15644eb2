#!/usr/bin/env bash
# GNU readelf 2.40 (and a snapshot of 2.47.50) stops printing a `.debug_frame` at the first CIE whose return address column is 127 or
# more on x86-64: that CIE, its FDEs and everything after them are missing, in `-wf` and in `-wF`, without a warning, and the status
# is 0. What was printed before looks like a whole section; if the first CIE has such a column, as in cubins of ptxas 12.9, the section
# looks empty.
#
# Expected: the column is an unsigned LEB128 number since version 3 of the CIE, and may be one that no machine register has (DWARF 5,
# 6.4.1). llvm-dwarfdump and eu-readelf print all of it.
#
# What follows: if readelf prints no FDE, there may be some all the same. Counts by readelf need a second reader.
#
# Needs: apt-get with the package lists of Debian 12, dpkg-deb. GNU as and readelf come from the package.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in binutils-x86-64-linux-gnu binutils-common libbinutils; do
  apt-get download -qq "$package=2.40-2" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
apt-get download -qq elfutils=0.188-2.1 libdw1=0.188-2.1 libelf1=0.188-2.1 libasm1=0.188-2.1 2>apt || { cat apt; exit 1; }
for package in elfutils libdw1 libelf1 libasm1; do dpkg-deb -x "$package"_*.deb unpacked; done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
bin=$work/unpacked/usr/bin

count() {  # FDEs of three functions, of which the second has the return address column $1
  {
    printf '.cfi_sections .debug_frame\n'
    printf 'first: .cfi_startproc\nnop\n.cfi_endproc\n'
    printf 'second: .cfi_startproc\n.cfi_return_column %s\nnop\n.cfi_endproc\n' "$1"
    printf 'third: .cfi_startproc\nnop\n.cfi_endproc\n'
  } >f.s
  "$bin/x86_64-linux-gnu-as" --gdwarf-cie-version=3 f.s -o f.o
  status=0
  "$bin/x86_64-linux-gnu-readelf" -wf f.o >out 2>messages || status=$?
  fdes=$(grep -c ' FDE ' out)
  others=$("$bin/eu-readelf" --debug-dump=frames f.o 2>/dev/null | grep -c '\] FDE ')
  printf 'column %s: FDEs that readelf prints: %s, status %s, messages: "%s"; eu-readelf: %s\n' \
    "$1" "$fdes" "$status" "$(cat messages)" "$others"
}
"$bin/x86_64-linux-gnu-readelf" --version | head -1
count 126
[ "$fdes $others $status" = '3 3 0' ] || { echo 'column 126: another output'; exit 1; }
count 127
[ "$fdes $others $status" = '1 3 0' ] && [ ! -s messages ] || { echo 'column 127: another output now'; exit 1; }
count 1024
[ "$fdes $others $status" = '1 3 0' ] && [ ! -s messages ] || { echo 'column 1024: another output now'; exit 1; }
echo 'as described'
