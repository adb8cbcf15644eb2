#!/usr/bin/env bash
# GNU ld 2.40 does not know the letter "G" of an AArch64 CIE's augmentation, which clang writes for each function that tags its stack
# (-fsanitize=memtag-stack). One object with such a function makes ld leave the search table out of `.eh_frame_hdr` for *all* inputs:
# "error in FILE(.eh_frame); no .eh_frame_hdr table will be created". It is called an error, and the link succeeds with status 0.
#
# Expected: "DWARF for the Arm 64-bit Architecture" (Common information entries) defines "G" as it does "B", without augmentation data,
# and ld 2.40 knows "B". The table has nothing to do with the letter: a sorted list of the FDEs' starts (LSB 5.0, Core).
#
# What follows: libgcc's unwinder searches the FDEs of that library one by one, and readers that need the table find none. 2.47 is right.
#
# The object's `.eh_frame` is written as data, since as 2.40 has no `.cfi_mte_tagged_frame`.
# Needs: apt-get with the package lists of Debian 12, dpkg-deb, readelf.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in binutils-aarch64-linux-gnu binutils-common libbinutils; do
  apt-get download -qq "$package=2.40-2" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu
tools=$work/unpacked/usr/bin/aarch64-linux-gnu

frame() {  # an object with one function and its FDE, of a CIE with the augmentation $1
  cat <<S
  .text
  .type f_$2, %function
f_$2: nop
  ret
.Lend:
  .size f_$2, . - f_$2
  .section .eh_frame, "a", %progbits
.Lcie:
  .4byte .Lfde - . - 4, 0
  .byte 1
  .asciz "$1"
  .uleb128 1
  .sleb128 -4
  .uleb128 30
  .uleb128 1
  .byte 0x1b, 0x0c, 31, 0    // pcrel sdata4; DW_CFA_def_cfa sp, 0
  .balign 4, 0
.Lfde:
  .4byte .Lnext - . - 4, . - .Lcie, f_$2 - ., .Lend - f_$2
  .uleb128 0
  .balign 4, 0
.Lnext:
S
}
for letter in '' B G; do
  frame "zR$letter" "plain$letter" | "$tools-as" - -o "in$letter.o"
done
link() {
  "$tools-ld" -shared --eh-frame-hdr in.o "$1" -o out.so 2>messages || { cat messages; exit 1; }
  size=$(readelf -SW out.so | awk '{ for (i = 1; i < NF; i++) if ($i == ".eh_frame_hdr") print $(i + 4) }')
  printf '%s: .eh_frame_hdr of 0x%s bytes. %s\n' "$1" "$size" "$(cat messages)"
}
"$tools-ld" --version | head -1
link inB.o
[ $((16#$size)) = 28 ] || { echo 'with "B": another table'; exit 1; }
link inG.o
[ $((16#$size)) = 8 ] && grep -q 'no .eh_frame_hdr table will be created' messages || { echo 'with "G": there is a table now'; exit 1; }
echo 'as described'
