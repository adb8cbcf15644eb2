#!/usr/bin/env bash
# LLVM's libunwind 14 takes the address of `DW_CFA_set_loc` for an offset in the function: it is greater than the function, so that no
# row after it is reached, and the CFA is that of the row before. The walk ends at such a function, or goes on in a wrong frame.
# (16.0.6, 19.1.7 and 23.1.4 do the same.)
#
# Expected: "the required action is to create a new table row using the specified address as the location" (DWARF 5, 6.4.2.1).
# libgcc's unwinder, HP's libunwind and elfutils read it so.
#
# Needs: x86-64 Linux, gcc, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq libunwind-14=1:14.0.6-12 2>apt || { cat apt; exit 1; }
dpkg-deb -x libunwind-14_*.deb unpacked

cat >function.S <<'A'
  .globl function
function:
  push %rbx
pushed:
  sub $32, %rsp
grown:
  call capture
  add $32, %rsp
popped:
  pop %rbx
  ret
end:
  .section .eh_frame, "a", @progbits
cie: .long cie_end - . - 4, 0
  .byte 1
  .asciz "zR"
  .byte 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1
  .balign 8
cie_end:
  .long fde_end - . - 4
id: .long id - cie
  .quad function, end - function
  .byte 0
  .byte 0x40 + (pushed - function), 0x0e, 16, 0x83, 2
#ifdef SET_LOC
  .byte 1
  .quad grown
#else
  .byte 0x40 + (grown - pushed)
#endif
  .byte 0x0e, 48
  .balign 8
fde_end:
  .section .note.GNU-stack, "", @progbits
A
cat >walk.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
void function(void);
int main(void);
static unsigned long (*ip)(void *);
static int is_main;
static int frame(void *context, void *unused) {
  unsigned long pc = ip(context);
  is_main |= pc > (unsigned long)main && pc < (unsigned long)main + 60;
  return 0;
}
void capture(void) {
  int (*backtrace)(int (*)(void *, void *), void *);
  void *library = dlopen(LIBRARY, RTLD_NOW);
  *(void **)&backtrace = dlsym(library, "_Unwind_Backtrace");
  *(void **)&ip = dlsym(library, "_Unwind_GetIP");
  backtrace(frame, 0);
}
int main(void) {
  function();
  printf("%s\n", is_main ? "reaches main" : "ends before main");
  return 0;
}
C
run() {  # whether the library $1 walks to main, with the options ${@:2}
  gcc -no-pie -O1 "-DLIBRARY=\"$1\"" "${@:2}" walk.c function.S -o walk
  found=$(./walk)
  printf '%s %s: %s\n' "${1##*/}" "${*:2}" "$found"
}
libunwind=$work/unpacked/usr/lib/llvm-14/lib/libunwind.so.1
run libgcc_s.so.1
[ "$found" = 'reaches main' ] || { echo 'libgcc, advance_loc: another walk'; exit 1; }
run libgcc_s.so.1 -DSET_LOC
[ "$found" = 'reaches main' ] || { echo 'libgcc, set_loc: another walk'; exit 1; }
run "$libunwind"
[ "$found" = 'reaches main' ] || { echo 'libunwind, advance_loc: another walk'; exit 1; }
run "$libunwind" -DSET_LOC
[ "$found" = 'ends before main' ] || { echo 'libunwind, set_loc: another walk now'; exit 1; }
echo 'as described'
