#!/usr/bin/env bash
# libunwind 1.6.2 (nongnu) applies the rule "the return address is in register R" to the *caller's* R: if the same row says where R is
# saved, the walk goes on at the saved value. Here that is the 0 that `outer` has in r12, and the frame after
# `function` has the PC 0. Without the rule of r12, the same code gives all frames.
#
# Expected: register(R) means that the previous value is in R (DWARF 5, 6.4.1), in the activation that the row is for. All rules of a
# row are applied to the registers of that one activation, and the results are the caller's (6.4.3); their order does not matter.
# libgcc's unwinder does that in both cases.
#
# Needs: x86-64 Linux, gcc, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in libunwind8 libunwind-dev; do
  apt-get download -qq "$package=1.6.2-3" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
libraries=$work/unpacked/usr/lib/x86_64-linux-gnu

cat >functions.S <<'A'
.macro begin name
  .globl \name; .type \name, @function
\name: .cfi_startproc
  push %r12
  .cfi_def_cfa_offset 16
.endm
.macro end name
  pop %r12
  .cfi_def_cfa_offset 8
  .cfi_same_value r12
  ret
  .cfi_endproc; .size \name, . - \name
.endm
begin outer
  .cfi_offset r12, -16
  xor %r12d, %r12d
  call function
end outer
begin function
#ifdef RULE
  .cfi_offset r12, -16
#endif
  mov 8(%rsp), %r12
  movq $0, 8(%rsp)
  .cfi_register rip, r12
  call capture
  mov %r12, 8(%rsp)
  .cfi_offset rip, -8
end function
  .section .note.GNU-stack, "", @progbits
A
cat >walk.c <<'C'
#define UNW_LOCAL_ONLY
#include <execinfo.h>
#include <libunwind.h>
#include <stdio.h>
void outer(void);
void capture(void) {
#ifdef LIBUNWIND
  unw_context_t context;
  unw_cursor_t cursor;
  unw_word_t offset, pc = 1;
  unw_getcontext(&context);
  unw_init_local(&cursor, &context);
  printf("libunwind: capture");
  while (pc && unw_step(&cursor) > 0) {
    char name[99] = "?";
    unw_get_proc_name(&cursor, name, sizeof name, &offset);
    unw_get_reg(&cursor, UNW_REG_IP, &pc);
    printf(" %s", pc ? name : "0");
  }
  puts("");
#else
  void *addresses[99];
  backtrace_symbols_fd(addresses, backtrace(addresses, 99), 1);
#endif
}
int main(void) { outer(); return 0; }
C
run() {  # the traces of the program that is compiled with the options $@
  headers=(-I unpacked/usr/include/x86_64-linux-gnu -I unpacked/usr/include)
  gcc -O2 -ffixed-r12 "$@" "${headers[@]}" -rdynamic walk.c functions.S -o walk
  printf 'libgcc: %s\n' "$(./walk | sed 's/.*(\(.*\)+.*/\1/' | tr '\n' ' ')"
  ./walk | grep -q _start || { echo 'another trace by libgcc'; exit 1; }
  gcc -O2 -ffixed-r12 -DLIBUNWIND "$@" "${headers[@]}" walk.c functions.S -o walk -L "$libraries" -lunwind -llzma
  LD_LIBRARY_PATH=$libraries ./walk | tee output
}
run
grep -q 'capture function outer main .*_start$' output || { echo 'another trace without the rule'; exit 1; }
run -DRULE
grep -q 'capture function 0$' output || { echo 'another trace now'; exit 1; }
echo 'as described'
