#!/usr/bin/env bash
# libunwind 1.6.2 (nongnu) cannot step out of a function whose CFI says where a vector register is saved: unw_step() returns
# -UNW_EBADREG, and the trace ends there. gcc writes such rules for x86-64 in each function with the attribute ms_abi that calls one
# without it, such as Wine's and UEFI code: there the caller may rely on xmm6 to xmm15. clang 14 writes them for
# preserve_all. No vector register is asked for.
#
# Expected: a rule per register of the architecture, which the psABI numbers for DWARF: xmm0 to xmm15 are 17 to 32 (System V ABI,
# AMD64, "DWARF Register Number Mapping"). The CFA and the return address do not depend on these rules. libgcc's unwinder
# reads the same CFI and goes on to `_start`.
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

cat >functions.c <<'C'
void capture(void);
#ifdef MS
__attribute__((ms_abi))
#endif
__attribute__((noinline)) int function(int x) { capture(); return x + 1; }
C
cat >walk.c <<'C'
#ifdef MS
__attribute__((ms_abi))
#endif
int function(int x);
#ifdef LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stdio.h>
void capture(void) {
  unw_context_t context;
  unw_cursor_t cursor;
  int status;
  unw_getcontext(&context);
  unw_init_local(&cursor, &context);
  printf("libunwind: capture");
  while ((status = unw_step(&cursor)) > 0) {
    char name[99] = "?";
    unw_word_t offset;
    unw_get_proc_name(&cursor, name, sizeof name, &offset);
    printf(" %s", name);
  }
  printf(", then status %d\n", status);
}
#else
#include <execinfo.h>
void capture(void) {
  void *addresses[99];
  backtrace_symbols_fd(addresses, backtrace(addresses, 99), 1);
}
#endif
int main(void) { return function(1) - 2; }
C
run() {  # the traces of the program that is compiled with the options $@
  gcc -O2 "$@" -c functions.c -o functions.o
  printf 'rules of vector registers: %s\n' "$(readelf -wf functions.o | grep -c 'DW_CFA_offset.*(xmm' || true)"
  gcc -O2 "$@" -rdynamic walk.c functions.o -o walk
  printf 'libgcc: %s\n' "$(./walk | sed 's/.*(\(.*\)+.*/\1/' | tr '\n' ' ')"
  ./walk | grep -q _start || { echo 'another trace by libgcc'; exit 1; }
  gcc -O2 "$@" -DLIBUNWIND -I unpacked/usr/include/x86_64-linux-gnu -I unpacked/usr/include walk.c functions.o -o walk -L "$libraries" -lunwind -llzma
  LD_LIBRARY_PATH=$libraries ./walk | tee output
}
run
grep -q 'capture function main .*_start, then status 0$' output || { echo 'another trace of the ordinary function'; exit 1; }
run -DMS
grep -q 'capture function, then status -3$' output || { echo 'another trace now'; exit 1; }
echo 'as described'
