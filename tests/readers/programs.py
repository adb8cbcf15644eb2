"""Builds the programs of the constructs, and reads what the table needs of them."""
import pathlib
import struct
import subprocess

import readers

HERE = pathlib.Path(__file__).parent
COMPILERS = {"x86-64": "gcc", "aarch64": "aarch64-linux-gnu-gcc"}


class Program:
    """A linked program with a construct."""

    def __init__(self, path, construct):
        self.path, self.construct = path, construct
        self.columns = readers.COLUMNS[construct.machine]
        self.return_column = 16 if construct.machine == "x86-64" else 30
        self.bytes = path.read_bytes()
        symbols = self.symbols()
        # A call's row is that of the byte before the return address, but a trampoline's that of its first byte.
        self.probe = symbols["here"] - ("trampoline" not in symbols)
        self.mid, self.beside = symbols["mid"], symbols["beside"]

    def column(self, name):
        """Returns the DWARF column of a register's name."""
        others = {"ra": self.return_column, "xmm6": 23, "xmm20": 71}
        return self.columns.index(name) if name in self.columns else others.get(name, name)

    def headers(self):
        """Returns the section headers: name, type, address, offset, size, link."""
        at, size, count, names = *struct.unpack_from("<Q", self.bytes, 0x28), *struct.unpack_from("<HHH", self.bytes, 0x3a)
        headers = [struct.unpack_from("<IIQQQQII", self.bytes, at + index * size) for index in range(count)]
        text = headers[names][4]
        return [(self.text(text + header[0]), header[1], header[3], header[4], header[5], header[6]) for header in headers]

    def function_at(self, address):
        """Returns the name of the function that has an address, or the address."""
        _, size, start = self.section(".text")
        if not start <= address < start + size:
            return hex(address)
        found = [(value, name) for name, value in self.symbols().items() if value <= address and name in readers.CHAIN + ["leaf", "beside"]]
        return max(found)[1] if found else hex(address)

    def base(self):
        """Returns the address of the file's first byte in memory."""
        at, size, count = *struct.unpack_from("<Q", self.bytes, 0x20), *struct.unpack_from("<HH", self.bytes, 0x36)
        segments = [struct.unpack_from("<IIQQ", self.bytes, at + index * size) for index in range(count)]
        return next(address - offset for kind, _, offset, address in segments if kind == 1)

    def text(self, at):
        return self.bytes[at:self.bytes.index(b"\0", at)].decode()

    def section(self, name):
        """Returns the offset, the size and the address of a section, or None."""
        for found, _, address, offset, size, _ in self.headers():
            if found == name:
                return offset, size, address
        return None

    def symbols(self):
        headers, found = self.headers(), {}
        for _, kind, _, offset, size, link in headers:
            if kind == 2:
                for at in range(offset, offset + size, 24):
                    name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", self.bytes, at)
                    found[self.text(headers[link][3] + name)] = value
        return found

    def search_table(self):
        """Returns the functions of `.eh_frame_hdr`'s table, or None without a table."""
        at, size, address = self.section(".eh_frame_hdr") or (0, 0, 0)
        if size < 12 or self.bytes[at:at + 4] not in (b"\1\x1b\3\x3b",):
            return None
        count, = struct.unpack_from("<I", self.bytes, at + 8)
        return {address + struct.unpack_from("<i", self.bytes, at + 12 + 8 * index)[0] for index in range(count)}


def run(*command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}")
    return done.stdout


def build(construct, scratch):
    """Builds a construct's program with the machine's tools, and returns it."""
    source, object_file, path = (scratch / f"{construct.name}{end}" for end in (".s", ".o", ""))
    source.write_text(construct.source)
    compiler = COMPILERS[construct.machine]
    for common in ("program.c", "callers.S"):
        to = scratch / f"{common[:-2]}.{compiler}.o"
        if not to.exists():
            run(compiler, "-O1", "-g", "-c", HERE / common, "-o", to)
    run(compiler, "-c", "-o", object_file, source)
    run(*link_command(object_file, path, compiler, *construct.options))
    if construct.after:
        globals()[construct.after](path, construct)
    return Program(path, construct)


def link_command(object_file, path, compiler="gcc", *options):
    scratch = object_file.parent
    return [compiler, "-no-pie", *options, scratch / f"program.{compiler}.o", scratch / f"callers.{compiler}.o", object_file, "-o", path, "-ldl"]


# What is done to linked programs.

def own_table(path, construct):
    """Writes the search table that the linker has left out into `table`, so that readers are asked and not the linker."""
    program = Program(path, construct)
    content, (at, size, address) = bytearray(program.bytes), program.section(".eh_frame")
    place = program.symbols()["table"]
    to = next(offset + place - start for _, _, start, offset, length, _ in program.headers() if start <= place < start + length)
    entries, frame = [], at
    while frame + 4 <= at + size:
        length, id = struct.unpack_from("<II", content, frame)
        if length and id:
            field = address + frame - at + 8
            entries.append((field + struct.unpack_from("<i", content, frame + 8)[0] - place, address + frame - at - place))
        frame += 4 + length
    new = b"\1\x1b\3" + b"\x3b" + struct.pack("<iI", address - place - 4, len(entries))
    new += b"".join(struct.pack("<ii", *entry) for entry in sorted(entries))
    assert len(new) <= 4096, len(new)
    content[to:to + len(new)] = new
    first, length, number = *struct.unpack_from("<Q", content, 0x20), *struct.unpack_from("<HH", content, 0x36)
    for index in range(number):
        header = first + index * length
        if struct.unpack_from("<I", content, header)[0] == 0x6474e550:
            struct.pack_into("<QQQQQ", content, header + 8, to, place, place, len(new), len(new))
    # Some readers take the section by its name.
    first, length, names = struct.unpack_from("<Q", content, 0x28)[0], 64, [header[0] for header in program.headers()]
    struct.pack_into("<QQQ", content, first + length * names.index(".eh_frame_hdr") + 16, place, to, len(new))
    path.write_bytes(content)


def renamed(path, _):
    run("objcopy", "--rename-section", ".eh_frame=.frames", path)
