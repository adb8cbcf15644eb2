#!/usr/bin/env bash
# libunwind 1.6.2 (nongnu) does not find FDEs by an `.eh_frame_hdr` whose table has 8-byte entries. It does not search `.eh_frame` instead,
# and reports no error: it goes on by guessing at the frame pointer, and finds none of the callers. With 4-byte entries for the same FDE
# the walk is right.
#
# Expected: the table's encoding is in the header, and any `DW_EH_PE` encoding may be there (Linux Standard Base, Core, "Exception Frame
# Header"). A reader that does not know the encoding has the pointer to `.eh_frame`, which is in the header so that FDEs can be searched
# without a table. LLVM's libunwind and libgcc read both tables, or search.
#
# What follows: `strace -k`, which uses libunwind, prints no callers. lld 23.1.4 writes 8-byte entries if code lies more than 2 GiB from the
# header (-mcmodel=large, large programs). lld 14 refused such links, so no file had such a table when these readers were tried.
#
# Needs: x86-64 Linux, gcc, GNU ld, apt-get with the package lists of Debian 12, dpkg-deb.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in libunwind8=1.6.2-3 libunwind-14=1:14.0.6-12; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
hp=$(find "$work/unpacked" -name libunwind.so.8)
llvm=$(find "$work/unpacked/usr/lib/llvm-14" -name libunwind.so.1)

# A library with one function, its CIE and FDE, and the header, to which PT_GNU_EH_FRAME leads.
cat >f.S <<'A'
  .text
  .globl through
through:
code:
  push %rbx
pushed:
  mov %rdi, %rax
  mov %esi, %edi
  call *%rax
  pop %rbx
popped:
  ret
end:
  .section frames, "a"
  .p2align 3
cie: .long 1f - 0f
0: .long 0
  .byte 1
  .string "zR"
  .byte 1, 0x78, 16, 1, 0x1c
  .byte 0x0c, 7, 8, 0x80 | 16, 1
  .p2align 3
1:
fde: .long 1f - 0f
0: .long . - cie
  .quad code - .
  .quad end - code
  .byte 0
  .byte 0x40 | (pushed - code), 0x0e, 16, 0x83, 2
  .byte 0x40 | (popped - pushed), 0x0e, 8
  .p2align 3
1: .long 0
  .section header, "a"
  .p2align 2
start: .byte 1
#ifdef WIDE  /* DW_EH_PE_pcrel | DW_EH_PE_sdata8, DW_EH_PE_udata4, DW_EH_PE_datarel | DW_EH_PE_sdata8 */
  .byte 0x1c, 0x03, 0x3c
  .quad cie - .
  .long 1
  .quad code - start, fde - start
#else
  .byte 0x1b, 0x03, 0x3b
  .long cie - .
  .long 1
  .long code - start, fde - start
#endif
A
cat >script <<'L'
PHDRS { text PT_LOAD FILEHDR PHDRS; dynamic PT_DYNAMIC; frames PT_GNU_EH_FRAME; }
SECTIONS {
  . = SIZEOF_HEADERS;
  .hash : { *(.hash) } :text .dynsym : { *(.dynsym) } .dynstr : { *(.dynstr) }
  .text : { *(.text) } frames : { *(frames) }
  header : { *(header) } :text :frames
  .dynamic : { *(.dynamic) } :text :dynamic
}
L
gcc -c f.S -o narrow.o
gcc -DWIDE -c f.S -o wide.o
for name in narrow wide; do ld.bfd -shared --hash-style=sysv -T script "$name.o" -o "$name.so" 2>messages || { cat messages; exit 1; }; done

cat >walk.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static void *pcs[20];
static int frames;
static int (*unw_backtrace)(void **, int);
static int (*unwind_backtrace)(int (*)(void *, void *), void *);
static void *(*get_ip)(void *);

static int collect(void *context, void *data) {
  if (frames < 20) pcs[frames++] = get_ip(context);
  return 0;
}
static int walk(int x) {
  frames = 0;
  if (unw_backtrace) frames = unw_backtrace(pcs, 20);
  else unwind_backtrace(collect, 0);
  int has_main = 0;
  for (int i = 0; i < frames; i++) {
    Dl_info info;
    has_main |= dladdr(pcs[i], &info) && info.dli_sname && info.dli_sname[0] == 'm' && info.dli_sname[1] == 'a';
  }
  printf("main is %s\n", has_main ? "there" : "not there");
  return x;
}
int main(int count, char **arguments) {
  void *unwinder = dlopen(arguments[1], RTLD_NOW), *library = dlopen(arguments[2], RTLD_NOW);
  if (!unwinder || !library) { puts(dlerror()); return 1; }
  unw_backtrace = (int (*)(void **, int))dlsym(unwinder, "unw_backtrace");
  unwind_backtrace = (int (*)(int (*)(void *, void *), void *))dlsym(unwinder, "_Unwind_Backtrace");
  get_ip = (void *(*)(void *))dlsym(unwinder, "_Unwind_GetIP");
  return ((int (*)(int (*)(int), int))dlsym(library, "through"))(walk, 0);
}
C
gcc -O1 -rdynamic -fasynchronous-unwind-tables walk.c -o walk -ldl
check() {  # $1: name, $2: unwinder, $3: library, $4: expected
  found=$(./walk "$2" "./$3.so")
  printf '%s, %s entries: %s\n' "$1" "$3" "$found"
  [ "$found" = "$4" ] || { echo 'another result now'; exit 1; }
}
right='main is there'
for library in narrow wide; do
  check libgcc libgcc_s.so.1 "$library" "$right"
  check "LLVM's libunwind" "$llvm" "$library" "$right"
done
check libunwind "$hp" narrow "$right"
check libunwind "$hp" wide 'main is not there'
echo 'as described'
