#!/usr/bin/env bash
# llvm-dwarfutil 19.1.7 removes the FDEs in `.debug_frame` of functions that no compilation unit of `.debug_info` describes, such as those of
# assembler files without -g. The functions are still there, and their rows are gone. There is no message, and the status is 0. (23.1.4
# does the same.)
#
# Expected: garbage collection is for debug information of sections that the linker has discarded (llvm-dwarfutil's manual,
# --garbage-collection), so of the four FDEs here the one of a function that the linker has removed goes, and three stay. `.debug_frame` needs no other section (DWARF 5, 6.4.1, and
# Appendix B, where no other section leads to it or from it).
#
# What follows: if the program has no `.eh_frame`, debuggers cannot go through the assembler functions any more.
#
# Needs: x86-64 Linux, gcc, readelf, apt-get with the package lists of Debian 12, dpkg-deb. About 60 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in llvm-19=1:19.1.7-3~deb12u1 libllvm19=1:19.1.7-3~deb12u1; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
cat >c.c <<'C'
int in_assembler(int);
__attribute__((noinline)) int in_c(int a) { return in_assembler(a) + 1; }
int removed(int a) { return a * 7; }
int main(void) { return in_c(-1); }
C
cat >assembler.s <<'S'
.cfi_sections .debug_frame
.globl in_assembler
in_assembler: .cfi_startproc
push %rbx
.cfi_def_cfa_offset 16
.cfi_offset %rbx, -16
mov %edi, %eax
pop %rbx
.cfi_def_cfa_offset 8
.cfi_restore %rbx
ret
.cfi_endproc
.section .note.GNU-stack
S
gcc -g -gdwarf-4 -O1 -ffunction-sections -fno-asynchronous-unwind-tables -c c.c
gcc -c assembler.s
gcc -Wl,--gc-sections c.o assembler.o -o program
status=0
LD_LIBRARY_PATH=unpacked/usr/lib/x86_64-linux-gnu:unpacked/usr/lib/llvm-19/lib unpacked/usr/lib/llvm-19/bin/llvm-dwarfutil program small 2>messages || status=$?
./small

# fdes FILE: the functions that .debug_frame has an FDE for
fdes() {
  readelf --debug-dump=frames "$1" | sed -n '/debug_frame/,$p' | grep -oE 'pc=[0-9a-f]+' | cut -c4- | sort >starts
  nm "$1" | awk '$2 == "T" { print $1, $3 }' | sort | join - starts | awk '{ print $2 }' | sort | tr '\n' ' '
}
printf 'FDEs of functions in .debug_frame: before: %safter: %sstatus %s, messages "%s"\n' \
  "$(fdes program)" "$(fdes small)" "$status" "$(cat messages)"
nm small | grep in_assembler
[ "$(fdes program)" = 'in_assembler in_c main ' ] || { echo 'another program'; exit 1; }
[ "$(fdes small)" = 'in_c main ' ] && [ "$status" = 0 ] && [ ! -s messages ] || { echo 'another output now'; exit 1; }
echo 'as described'
