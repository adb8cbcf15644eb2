"""Runs functions of an x86-64 file in an emulator, and compares each row of a table with the stack.

    emulate.py FILE DUMP FUNCTIONS

DUMP is the output of `cfi2sframe dump` or `readelf --sframe` for a table. FUNCTIONS is the number of functions that are
run, evenly divided over the table. Each runs several times: conditional branches go to either side at random, registers
and memory have random values, and calls are skipped. The random numbers are the same in every run.

The status is 1 if a row differs.
"""

import bisect
import random
import re
import struct
import sys

from unicorn import UC_ARCH_X86, UC_HOOK_CODE, UC_HOOK_MEM_INVALID, UC_HOOK_MEM_WRITE, UC_MEM_READ_UNMAPPED, UC_MEM_WRITE_UNMAPPED
from unicorn import UC_MODE_64, UC_PROT_EXEC, UC_PROT_READ, UC_PROT_WRITE, Uc, UcError
from unicorn import x86_const as x86

RUNS = 12
STEPS = 600
PAGE = 0x1000
STACK = 0x7F00_0000_0000
HEAP = 0x6000_0000_0000
RETURN = 0x5000_0000_0000
# At most this many pages of memory are made for a run.
PAGES = 64

GENERAL = "RAX RCX RDX RBX RBP RSI RDI R8 R9 R10 R11 R12 R13 R14 R15".split()
REGISTERS = {name: getattr(x86, f"UC_X86_REG_{name}") for name in [*GENERAL, "RSP", "RIP", "EFLAGS"]}
CLOBBERED = ["RAX", "RCX", "RDX", "RSI", "RDI", "R8", "R9", "R10", "R11"]
# Carry, parity, zero, sign, overflow.
FLAGS = [0x1, 0x4, 0x40, 0x80, 0x800]


def functions_of(dump):
    """Returns the functions: start, end, the starts of the rows, and the rows (CFA register, offset, place of rbp)."""
    found = []
    for line in dump:
        if head := re.search(r"pc = (0x[0-9a-f]+), size = (\d+) bytes", line):
            start = int(head[1], 16)
            found.append((start, start + int(head[2]), [], []))
        elif row := re.match(r"\s+([0-9a-f]{16})\s+(sp|fp)\+(\d+)\s+(u|c-\d+)\s+f\s*$", line):
            start, register, offset, place = row.groups()
            found[-1][2].append(int(start, 16))
            place = None if place == "u" else -int(place[2:])
            found[-1][3].append(("RSP" if register == "sp" else "RBP", int(offset), place))
    return sorted(found, key=lambda function: function[0])


def segments_of(file):
    """Returns the loaded segments of an ELF file: address, size in memory, bytes, whether they are code."""
    offset, size, number = struct.unpack_from("<Q14xHH", file, 32)
    for index in range(number):
        kind, flags, at, address, _, in_file, in_memory = struct.unpack_from("<IIQQQQQ", file, offset + index * size)
        if kind == 1:
            yield address, in_memory, file[at : at + in_file], flags & 1


def kind_of(code):
    """Returns what the run has to know of an instruction: `call`, `branch`, `jump`, `nop`, `repeats`, `leaves` or None."""
    at, repeats = 0, False
    while code[at] in (0x66, 0xF2, 0xF3, 0x2E, 0x3E, 0x64, 0x65):
        repeats |= code[at] in (0xF2, 0xF3)
        at += 1
    at += code[at] & 0xF0 == 0x40
    first = code[at]
    second = code[at + 1] if at + 1 < len(code) else 0
    if first == 0xE8 or first == 0xFF and second >> 3 & 7 == 2:
        return "call"
    if first == 0x90 or first == 0x0F and second == 0x1F:
        return "nop"
    if first == 0xFF and second >> 3 & 7 == 4:
        return "jump"
    if first & 0xF0 == 0x70 or first == 0x0F and second & 0xF0 == 0x80:
        return "branch"
    if first in (0xF4, 0xCC) or first == 0x0F and second in (0x0B, 0x05):
        return "leaves"
    return "repeats" if repeats and first in (*range(0xA4, 0xA8), *range(0xAA, 0xB0)) else None


class Machine:
    """An emulator with a file in its memory."""

    def __init__(self, file, functions):
        self.functions, self.starts = functions, [function[0] for function in functions]
        self.engine = Uc(UC_ARCH_X86, UC_MODE_64)
        for address, size, content, is_code in segments_of(file):
            first = address & -PAGE
            access = UC_PROT_READ | UC_PROT_EXEC if is_code else UC_PROT_READ | UC_PROT_WRITE
            self.engine.mem_map(first, (address + size - first + PAGE - 1) & -PAGE, access)
            self.engine.mem_write(address, content)
        self.engine.mem_map(STACK, 16 * PAGE)
        self.engine.mem_map(RETURN, PAGE)
        self.engine.hook_add(UC_HOOK_CODE, self.step)
        self.engine.hook_add(UC_HOOK_MEM_INVALID, self.invalid)
        self.engine.hook_add(UC_HOOK_MEM_WRITE, self.store)
        self.rows, self.wrong, self.after_calls = set(), {}, set()
        self.checks = 0

    def row_at(self, pc):
        """Returns the index of the function, the start of the row, and the row."""
        function = bisect.bisect(self.starts, pc) - 1
        if function < 0 or pc >= self.functions[function][1]:
            return None
        _, _, starts, rows = self.functions[function]
        row = bisect.bisect(starts, pc) - 1
        return (function, starts[row], rows[row]) if row >= 0 else None

    def read(self, register):
        return self.engine.reg_read(REGISTERS[register])

    def write(self, register, value):
        self.engine.reg_write(REGISTERS[register], value)

    def value(self):
        """Returns a random value: a pointer, a small number, or any number."""
        return self.random.choice(
            [HEAP + self.random.randrange(0, 1 << 20, 8), self.random.randrange(16), self.random.getrandbits(64)]
        )

    def run(self, start, seed):
        self.random = random.Random(seed)
        self.steps, self.made, self.is_after_call, self.jumped_from = 0, [], False, None
        for register in GENERAL:
            self.write(register, self.value())
        stack = STACK + 12 * PAGE + 8 * self.random.randrange(64)
        self.engine.mem_write(STACK, self.random.randbytes(16 * PAGE))
        self.engine.mem_write(stack, struct.pack("<Q", RETURN))
        self.write("RSP", stack)
        self.cfa, self.frame_pointer = stack + 8, self.read("RBP")
        # The slots that hold what the rows describe.
        self.slots = {stack}
        try:
            self.engine.emu_start(start, RETURN)
        except UcError:
            pass
        for page in self.made:
            self.engine.mem_unmap(page, PAGE)

    def invalid(self, engine, access, address, size, value, data):
        """Makes a page of random bytes, unless the run has left the code or needs too many pages."""
        page = address & -PAGE
        if len(self.made) >= PAGES or page >= 1 << 47 or access not in (UC_MEM_READ_UNMAPPED, UC_MEM_WRITE_UNMAPPED):
            return False
        pages = [page, page + PAGE] if (address + size - 1) & -PAGE != page else [page]
        for page in pages:
            try:
                engine.mem_map(page, PAGE)
            except UcError:
                continue
            engine.mem_write(page, self.random.randbytes(PAGE))
            self.made.append(page)
        return True

    def store(self, engine, access, address, size, value, data):
        """Ends a run that overwrites a slot, because an index is random."""
        if any(address < slot + 8 and slot < address + size for slot in self.slots):
            engine.emu_stop()
            self.steps = STEPS

    def step(self, engine, pc, size, data):
        function, start, row = self.row_at(pc) or (None, 0, None)
        self.steps += 1
        # With a random index, a jump table leads anywhere.
        is_lost = self.jumped_from not in (None, function) and function is not None and pc != self.starts[function]
        self.jumped_from = None
        if row is None or is_lost or self.steps > STEPS or not 0 < size <= 15:
            engine.emu_stop()
            return
        self.rows.add(start)
        self.checks += 1
        if words := self.difference(row):
            # A call that is skipped here may never return in the program.
            if self.is_after_call:
                self.after_calls.add(start)
            else:
                self.wrong.setdefault(start, f"{pc:#x}: {words}")
            engine.emu_stop()
            return
        kind = kind_of(engine.mem_read(pc, size))
        self.is_after_call &= kind == "nop"
        if kind == "call":
            for register in CLOBBERED:
                self.write(register, self.value())
            self.is_after_call = True
            self.write("RIP", pc + size)
        elif kind == "jump":
            self.jumped_from = function
        elif kind == "branch":
            flags = self.read("EFLAGS")
            for flag in FLAGS:
                flags = flags & ~flag | flag * self.random.getrandbits(1)
            self.write("EFLAGS", flags)
        elif kind == "repeats":
            self.write("RCX", self.random.randrange(4))
        elif kind == "leaves":
            engine.emu_stop()

    def difference(self, row):
        """Returns how a row differs from the stack, or None."""
        register, offset, place = row
        cfa = self.read(register) + offset
        if cfa != self.cfa:
            return f"{register}+{offset} is {cfa:#x}, and the CFA is {self.cfa:#x}"
        if struct.unpack("<Q", self.engine.mem_read(cfa - 8, 8))[0] != RETURN:
            return "the return address is not at CFA-8"
        if place is None:
            self.slots = {cfa - 8}
            return None if self.read("RBP") == self.frame_pointer else "rbp is not the caller's"
        if struct.unpack("<Q", self.engine.mem_read(cfa + place, 8))[0] != self.frame_pointer:
            return f"the caller's rbp is not at CFA{place}"
        self.slots.add(cfa + place)
        return None


def main():
    path, dump, number = sys.argv[1:]
    functions = functions_of(open(dump))
    machine = Machine(open(path, "rb").read(), functions)
    step = max(1, len(functions) // int(number))
    selected = functions[::step][: int(number)]
    for start, _, _, rows in selected:
        # A fragment has the frame of its function, and is run with it.
        if not rows or rows[0] != ("RSP", 8, None):
            continue
        for run in range(RUNS):
            machine.run(start, start * RUNS + run)
    for words in machine.wrong.values():
        print(f"    WRONG {words}")
    print(
        f"{len(selected)} of {len(functions)} functions, {machine.checks} instructions, {len(machine.rows)} rows: "
        f"{len(machine.wrong)} wrong; {len(machine.after_calls)} not judged after calls that may not return"
    )
    return 1 if machine.wrong or not machine.rows else 0


sys.exit(main())
