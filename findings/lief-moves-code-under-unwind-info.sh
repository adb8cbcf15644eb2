#!/usr/bin/env bash
# LIEF 1.0.0 makes room for new load commands of a Mach-O file by moving everything after them up by a page. It corrects symbols and
# LC_FUNCTION_STARTS, but not `__unwind_info`, whose offsets count from the Mach-O header: functions, LSDAs and the slots of personalities
# are named where they were. `Binary.unwind_functions` of the new file has the old places. No message says so. One `add_library` or
# one `add(RPathCommand)` in a file without spare room in its header is enough.
#
# Expected: offsets of functions move with the functions (`mach-o/compact_unwind_encoding.h`: "functionOffset", "lsdaOffset" and the
# personalities are offsets from the image's header), or an error, as install_name_tool has when the header has no room.
#
# What follows: an exception through the new library finds no handler or a wrong one, and debuggers unwind by other functions' rules.
#
# Needs: x86-64 Linux, python3 with pip, apt-get with the package lists of Debian 12, dpkg-deb. About 80 MB are downloaded.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
python3 -m pip install --quiet --no-deps --target py lief==1.0.0 2>pip || { cat pip; exit 1; }
for package in lld-14 clang-14 libclang-cpp14 libclang-common-14-dev libllvm14; do
  apt-get download -qq "$package=1:14.0.6-12" 2>apt || { cat apt; exit 1; }
  dpkg-deb -x "$package"_*.deb unpacked
done
tools=$work/unpacked/usr/lib/llvm-14/bin
with_libraries() { LD_LIBRARY_PATH=$work/unpacked/usr/lib/x86_64-linux-gnu:$work/unpacked/usr/lib/llvm-14/lib "$@"; }

cat >f.c <<'C'
int g(int);
int a(int x) { return g(x) + 1; }
int b(int x, int y) { return g(x) * g(y); }
int c(int x) { int more[9]; g((int)(long)more); return x; }
C
cat >add.py <<'PY'
import struct, sys, lief

def read(name):
    image = lief.MachO.parse(name).at(0)
    functions = {symbol.name: symbol.value for symbol in image.symbols if symbol.name in ("_a", "_b", "_c")}
    table = bytes(image.get_section("__unwind_info").content)
    index, count = struct.unpack_from("<II", table, 20)
    first, page = struct.unpack_from("<II", table, index)
    kind, entries, number = struct.unpack_from("<IHH", table, page)
    assert kind in (2, 3)
    at = [struct.unpack_from("<I", table, page + entries + (8 if kind == 2 else 4) * n)[0] for n in range(number)]
    starts = sorted(at if kind == 2 else [first + (entry & 0xFFFFFF) for entry in at])
    print(name, {name: hex(at) for name, at in functions.items()}, "function starts", [hex(at) for at in image.function_starts.functions],
          "__unwind_info", [hex(at) for at in starts])
    return sorted(functions.values()), starts, image

functions, starts, image = read("f.dylib")
assert set(starts) <= set(functions) and functions[0] == starts[0]
image.add_library("/usr/lib/libz.1.dylib")
image.write("moved.dylib")
moved, same, _ = read("moved.dylib")
assert moved == [at + moved[0] - functions[0] for at in functions] and moved[0] - functions[0] in (0x1000, 0x4000), "the code has not moved"
assert same == starts, "__unwind_info has moved too"
PY
for arch in arm64 x86_64; do
  echo "-- $arch"
  with_libraries "$tools/clang" -target "$arch-apple-macos11" -O1 -c f.c -o f.o
  with_libraries "$tools/ld64.lld" -arch "$arch" -dylib -headerpad 0x20 -undefined dynamic_lookup -platform_version macos 11.0 11.0 f.o -o f.dylib
  PYTHONPATH=py python3 add.py
done
echo 'as described'
