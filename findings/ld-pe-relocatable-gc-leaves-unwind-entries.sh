#!/usr/bin/env bash
# GNU ld 2.40 for Windows x64 with -r --gc-sections removes a function that is not used, and leaves its entries in `.pdata` and `.xdata`. The entry's
# relocations now name a symbol of section 0, which is undefined. There is no message, and the status is 0, but no linker takes the
# object: GNU ld says "relocation truncated to fit", and lld-link 14 ends with ".text$unused should not refer to special section 0".
#
# Expected: the entry goes with its function, as the FDE does for ELF after -r --gc-sections of the same ld. The entry's fields are offsets
# of a function from the image's start ("x64 exception handling", Microsoft Learn, "struct RUNTIME_FUNCTION"), so that none is possible
# without the function.
#
# What follows: the error comes at the next link, and names a section of a source that is not to blame.
#
# Needs: gcc (for libraries of LLVM), apt-get with the package lists of Debian 12, dpkg-deb. About 40 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
for package in lld-14=1:14.0.6-12 libllvm14=1:14.0.6-12 llvm-14=1:14.0.6-12 binutils-mingw-w64-x86-64=2.40-2+10.4; do
  apt-get download -qq "$package" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "${package%%=*}"_*.deb unpacked
done
export LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib
mingw=$work/unpacked/usr/bin/x86_64-w64-mingw32
llvm=$work/unpacked/usr/lib/llvm-14/bin
for name in start unused; do
  printf '.section .text$%s,"x"\n.globl %s\n.seh_proc %s\n%s:\nsub $40, %%rsp\n.seh_stackalloc 40\n.seh_endprologue\nadd $40, %%rsp\nret\n.seh_endproc\n' \
    $name $name $name $name
done >functions.s
"$mingw-as" functions.s -o functions.o
"$mingw-ld" -r -e start functions.o -o all.o 2>messages
"$mingw-ld" -r --gc-sections -e start functions.o -o collected.o 2>>messages
[ ! -s messages ] || { echo 'a message now'; exit 1; }

for object in all collected; do
  printf '%s.o: functions %s, entries %s\n' $object "$("$mingw-nm" $object.o | grep -c ' T ')" \
    "$("$mingw-objdump" -r $object.o | grep -c 'ADDR32NB.*text')" | tee -a results
  status=0
  "$mingw-ld" -e start $object.o -o $object.exe 2>&1 | sed "s,$work/,,g" || status=$?
  echo "GNU ld: status $status" | tee -a results
  status=0
  "$llvm/lld-link" /entry:start /subsystem:console /nodefaultlib $object.o /out:$object-lld.exe 2>&1 || status=$?
  echo "lld-link: status $status" | tee -a results
done
cat >expected <<'R'
all.o: functions 2, entries 4
GNU ld: status 0
lld-link: status 0
collected.o: functions 1, entries 4
GNU ld: status 1
lld-link: status 1
R
diff expected results || { echo 'another output now'; exit 1; }
echo 'as described'
