"""Faults in `.debug_frame` of a linked program, as Go writes it. Needs a little-endian ELF file of 64 bits."""
import os
import pathlib
import struct
import subprocess

from linted import ARM, X86, at_once, findings, run, symbols

ARCHES = {X86: "amd64", ARM: "arm64"}
# Registers that a wrong row takes for the CFA.
WRONG = {X86: (6, 3, 0, 12), ARM: (29, 19, 0, 9)}
DEF_CFA_REGISTER, DEF_CFA_OFFSET_SF, OFFSET_EXTENDED_SF = 0x0D, 0x13, 0x11
ADVANCES = {0x02: "B", 0x03: "H", 0x04: "I"}


def sleb(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value - (1 << shift if byte & 0x40 else 0), at


def sleb_bytes(value):
    found = bytearray()
    while not -0x40 <= value < 0x40:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value & 0x7F])


class Program:
    """The records of a program's `.debug_frame`."""

    def __init__(self, data):
        self.data = data
        table, = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        strings, = struct.unpack_from("<Q", data, table + names * size + 0x18)
        for header in range(table, table + count * size, size):
            name, = struct.unpack_from("<I", data, header)
            if data[strings + name:].startswith(b".debug_frame\0"):
                self.header = header
        start, length = struct.unpack_from("<QQ", data, self.header + 0x18)
        self.records = []
        frame = data[start:start + length]
        at = 0
        while at < len(frame):
            end = at + 4 + struct.unpack_from("<I", frame, at)[0]
            self.records.append(frame[at + 4:end])
            at = end
        # Version, augmentation and code alignment stand before the data alignment.
        self.factor, _ = sleb(self.records[0], 4 + 1 + 1 + 1)

    def write(self, records, path):
        """Writes the program with other records of the same number at its end."""
        whole = b"".join(struct.pack("<I", len(record)) + record for record in records)
        data = bytearray(self.data + whole)
        struct.pack_into("<QQ", data, self.header + 0x18, len(self.data), len(whole))
        path.write_bytes(data)

    def instructions(self, record):
        """Returns the CFA instructions of an FDE, each as its code, its operand and its bytes."""
        at, found = 4 + 16, []
        while at < len(record):
            first, code = at, record[at]
            operand, at = None, at + 1
            if code in ADVANCES:
                at += struct.calcsize(ADVANCES[code])
            elif code == DEF_CFA_OFFSET_SF:
                operand, at = sleb(record, at)
            elif code in (OFFSET_EXTENDED_SF, 0x05):
                _, at = sleb(record, at)
                operand, at = sleb(record, at)
            elif code in (0x06, 0x08, DEF_CFA_REGISTER):
                _, at = sleb(record, at)
            elif code >> 6 == 2:
                _, at = sleb(record, at)
            found.append((code, operand, record[first:at]))
        return found


def plants(instructions, factor, arch):
    """Yields the kind of a fault and the new CFA instructions."""
    offset = None
    for at, (code, operand, _) in enumerate(instructions):
        def with_new(*new):
            return [*(one[2] for one in instructions[:at]), *new, *(one[2] for one in instructions[at + 1:])]
        if code == OFFSET_EXTENDED_SF:
            register = instructions[at][2][:2]
            for wrong in (-8, 8):
                yield "wrong place of a register", with_new(register + sleb_bytes(operand + wrong // factor))
        # Go repeats offsets that do not change.
        if code != DEF_CFA_OFFSET_SF or operand == offset:
            continue
        is_first, offset = offset is None, operand
        own = instructions[at][2]
        if at + 1 == len(instructions):
            continue
        for wrong in WRONG[arch]:
            yield "wrong CFA register", with_new(own, bytes([DEF_CFA_REGISTER, wrong]))
        for wrong in (-8, 8, 16):
            yield "wrong CFA offset", with_new(bytes([DEF_CFA_OFFSET_SF]) + sleb_bytes(operand + wrong // factor))
        if not is_first:
            yield "missing row", with_new()


class Trial:
    """A program of Go for an architecture."""

    language = "Go"

    def __init__(self, command, compiler, arch, scratch):
        self.command, self.arch, self.scratch = command, arch, scratch
        self.title = f"{compiler} {ARCHES[arch]}"
        source = pathlib.Path(__file__).with_name("functions.go")
        build = [*compiler.split(), "build", "-ldflags=-compressdwarf=false", "-o", scratch / "program", source]
        subprocess.run(build, env=os.environ | {"GOARCH": ARCHES[arch], "GO111MODULE": "off"}, check=True)
        self.program = Program((scratch / "program").read_bytes())
        self.file = scratch / "planted"
        self.names = {place: name for name, place in symbols(scratch / "program")}

    def lint(self, records=None):
        """Returns the findings of each function."""
        self.program.write(records or self.program.records, self.file)
        return findings(run(self.command, self.file), self.file)

    def faults(self):
        """Plants the faults of each function of the file, those of all functions at once."""
        records, all_plants = self.program.records, []
        for number, record in enumerate(records):
            name = self.names.get(struct.unpack_from("<Q", record, 4)[0], "") if len(record) > 20 else ""
            if name.startswith("main."):
                own = self.program.instructions(record)
                all_plants.append(((number, name), list(plants(own, self.program.factor, self.arch))))
        for turn in range(max(len(found) for _, found in all_plants)):
            new = at_once(all_plants, turn)
            hit = self.planted(new)
            for one in new:
                (_, name), (kind, instructions) = one
                words = " ".join(one.hex() for one in instructions if one != b"\0")
                yield kind, name, words, hit, lambda one=one: self.planted([one])

    def planted(self, new):
        """Returns the findings of each function with faults."""
        records = list(self.program.records)
        for (number, _), (_, instructions) in new:
            records[number] = records[number][:20] + b"".join(instructions)
        return self.lint(records)
