#!/usr/bin/env bash
# eu-readelf 0.188 prints no call frame information of an `.eh_frame` that has the section type SHT_X86_64_UNWIND: --debug-dump=frames prints
# nothing at all, without a message, and the status is 0. All objects that LLVM writes for x86-64 have this type, and so have linked files
# of gold and, after -r, of GNU ld, if an object of LLVM is among the inputs. With the type SHT_PROGBITS the same bytes are printed.
#
# Expected: SHT_X86_64_UNWIND is the type for `.eh_frame` by the ABI (System V ABI, AMD64, "Sections" and "EH_FRAME sections"). `eu-readelf
# -S` knows it ("X86_64_UNWIND"). readelf and llvm-dwarfdump print the records.
#
# What follows: it looks as if clang's objects had no unwind information. Counts by eu-readelf need a second reader.
#
# Needs: gcc (for as, and its libraries), readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 40 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in elfutils=0.188-2.1 libdw1=0.188-2.1 libelf1=0.188-2.1 libasm1=0.188-2.1 llvm-14=1:14.0.6-12 libllvm14=1:14.0.6-12 \
  binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
bin=$work/unpacked/usr/bin
cat >function.s <<'S'
.globl function
function: .cfi_startproc
push %rbx
.cfi_def_cfa_offset 16
pop %rbx
.cfi_def_cfa_offset 8
ret
.cfi_endproc
S
"$bin/x86_64-linux-gnu-as" function.s -o gas.o
unpacked/usr/lib/llvm-14/bin/llvm-mc -filetype=obj -triple=x86_64-linux-gnu function.s -o llvm.o
"$bin/x86_64-linux-gnu-ld.gold" -shared llvm.o -o llvm-gold.so
"$bin/x86_64-linux-gnu-ld.bfd" -r llvm.o -o llvm-bfd-r.o
for file in gas.o llvm.o llvm-gold.so llvm-bfd-r.o; do
  status=0
  "$bin/eu-readelf" --debug-dump=frames $file >out 2>messages || status=$?
  printf '%s: %s; FDEs by readelf: %s, by eu-readelf: %s; status %s, messages "%s"\n' $file \
    "$("$bin/x86_64-linux-gnu-readelf" -SW $file | grep -oE ' \.eh_frame +[A-Z0-9_]+' | xargs)" \
    "$("$bin/x86_64-linux-gnu-readelf" -wf $file | grep -c ' FDE ')" "$(grep -c '\] FDE ' out || true)" "$status" "$(cat messages)" | tee -a results
done
cat >expected <<'R'
gas.o: .eh_frame PROGBITS; FDEs by readelf: 1, by eu-readelf: 1; status 0, messages ""
llvm.o: .eh_frame X86_64_UNWIND; FDEs by readelf: 1, by eu-readelf: 0; status 0, messages ""
llvm-gold.so: .eh_frame X86_64_UNWIND; FDEs by readelf: 1, by eu-readelf: 0; status 0, messages ""
llvm-bfd-r.o: .eh_frame X86_64_UNWIND; FDEs by readelf: 1, by eu-readelf: 0; status 0, messages ""
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
