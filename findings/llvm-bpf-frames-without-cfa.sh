#!/usr/bin/env bash
# LLVM 14 writes a `.debug_frame` into every BPF object that has debug information, although BPF programs are never unwound by it, and
# the CIE has no instructions at all: no PC of any function has a CFA or a rule. Its return address column is 11, while BPF has the
# registers 0 to 10, and its code alignment factor is 8 with a data alignment factor of -4.
#
# Expected: no such section, since the target's frame lowering emits no directives, or a CIE that defines the CFA by the frame pointer
# r10: each row of the table starts with a CFA rule (DWARF 5, 6.4.1).
#
# What follows: a reader of CFI meets a valid table whose rows have no CFA rule, in each CO-RE object that is built with -g, and must
# not take it for the rules of the FDE before, nor for CFA = r0+0. clang 23.1.4 writes the same.
#
# The module is what clang makes of a function with -g: `nounwind`, one compile unit, one subprogram.
# Needs: apt-get with the package lists of Debian 12, dpkg-deb, python3 with pip. About 35 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in llvm-14 libllvm14; do
  apt-get download -qq "$package=1:14.0.6-12" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
python3 -m pip install --quiet --no-deps --target py pyelftools==0.33 2>pip || { cat pip; exit 1; }

cat >f.ll <<'LL'
target triple = "bpf"
define i32 @f(i32 %x) nounwind !dbg !4 {
  %y = add i32 %x, 1, !dbg !7
  ret i32 %y, !dbg !7
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "f.c", directory: ".")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 4}
!4 = distinct !DISubprogram(name: "f", file: !1, line: 1, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{null}
!7 = !DILocation(line: 2, scope: !4)
LL
unpacked/usr/lib/llvm-14/bin/llc -march=bpf -filetype=obj f.ll -o f.o

PYTHONPATH=py python3 - <<'PY'
from elftools.elf.elffile import ELFFile

with open("f.o", "rb") as file:
    info = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
    cie, fde = list(info.CFI_entries())
    used = [hex(i.opcode) for entry in (cie, fde) for i in entry.instructions if i.opcode != 0]
    print("return address column:", cie["return_address_register"])
    print("alignment factors:", cie["code_alignment_factor"], cie["data_alignment_factor"])
    print("bytes of code:", fde["address_range"], "; instructions other than DW_CFA_nop:", used)
    assert used == [] and cie["return_address_register"] == 11 and fde["address_range"] > 0, "other CFI now"
PY
echo 'as described'
