#!/usr/bin/env python3
"""Plants one wrong CFI directive at a time in compiled functions, and counts what `cfi2sframe lint` finds.

    tests/planted/plant.py CFI2SFRAME [COMPILER...]

Prints for each architecture and kind of fault how many functions with the fault have a finding, and each fault that is
missed. Faults that change no row that can be observed are not planted. Status 1: fewer than 99 % of a kind are found, or
lint accuses a function without a fault. The script needs GNU as and ld of the architecture for each compiler.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

X86, ARM = "x86_64", "aarch64"
COMPILERS = {"gcc": X86, "clang": X86, "aarch64-linux-gnu-gcc": ARM}
OPTIONS = ["-O0", "-O2", "-Os", "-O3", "-O2 -fno-omit-frame-pointer", "-O1 -fomit-frame-pointer",
           "-O2 -fstack-clash-protection", "-O2 -fstack-protector-all"]
TOOLS = {X86: "", ARM: "aarch64-linux-gnu-"}
# Registers that a wrong row takes for the CFA, as DWARF numbers, and the CFA at the entry.
WRONG = {X86: ["6", "7", "3", "0", "12", "5"], ARM: ["29", "31", "19", "0", "9"]}
ENTRY = {X86: ("7", 8), ARM: ("31", 0)}
NAMES = {"rbp": "6", "rsp": "7", "rbx": "3", "wsp": "31", "sp": "31"}
LABEL = re.compile(r"^(?!\.L)([\w.]+):")


def number(register):
    name = register.strip().lstrip("%")
    return NAMES.get(name) or re.sub("^[wx](?=[0-9])", "", name)


def moved(lines, at, end):
    """Returns the directive at `at` one instruction later, unless another row or a label is in between."""
    after = at + 1
    while after < end and not re.match(r"\s+[a-z]", lines[after]):
        after += 1
    between = lines[at + 1:after + 1]
    if after == end or any(re.search(r"cfi_(def|adj)|state|:\s*$", line) for line in between):
        return None
    return after, [*between, lines[at]]


def plants(lines, start, end, arch):
    """Yields the kind of a fault, the range of lines that it replaces, and the new lines."""
    cfa, offset = ENTRY[arch]
    states, saved = [], set()
    for at in range(start + 1, end):
        match = re.match(r"\s*\.cfi_(\w+)\s*([^#/]*)", lines[at])
        if not match:
            continue
        name, arguments = match[1], [argument.strip() for argument in match[2].split(",")]
        if name == "remember_state":
            states.append((cfa, offset))
        elif name == "restore_state":
            cfa, offset = states.pop()
            yield "missing row", at, at, []
        elif name in ("offset", "rel_offset"):
            # After a return, rows go on for code before it. There the register may have the caller's value still.
            if arguments[0] not in saved:
                yield "missing save", at, at, []
            saved.add(arguments[0])
            for wrong in (-8, 8):
                place = f"\t.cfi_{name} {arguments[0]}, {int(arguments[1]) + wrong}"
                yield "wrong place of a register", at, at, [place]
        elif name in ("def_cfa", "def_cfa_register", "def_cfa_offset", "adjust_cfa_offset"):
            if name == "adjust_cfa_offset":
                offset += int(arguments[0])
            elif name == "def_cfa_offset":
                offset = int(arguments[0])
            else:
                cfa = number(arguments[0])
                offset = int(arguments[1]) if name == "def_cfa" else offset
            # Where a register takes over, the stack pointer has the same value until an instruction changes it.
            same = ENTRY[arch][0] if name == "def_cfa_register" else None
            for wrong in WRONG[arch]:
                if wrong not in (cfa, same):
                    yield "wrong CFA register", at, at, [f"\t.cfi_def_cfa {wrong}, {offset}"]
            is_replaced = name == "def_cfa_register" and "def_cfa_offset" in lines[at + 1]
            for wrong in (-8, 8, 16) if not is_replaced else ():
                yield "wrong CFA offset", at, at, [f"\t.cfi_def_cfa {cfa}, {offset + wrong}"]
            # Two registers have the same value here, so that both rows are right for some time.
            if name != "def_cfa_register":
                yield "missing row", at, at, []
                later = moved(lines, at, end)
                if later:
                    yield "moved row", at, *later


def functions(lines):
    """Returns the name, the first and the last line of each function with CFI."""
    found, name, start = [], None, None
    for at, line in enumerate(lines):
        label = LABEL.match(line)
        name = label[1] if label else name
        if ".cfi_startproc" in line:
            start = (name, at)
        elif ".cfi_endproc" in line:
            found.append((*start, at))
    return found


class Trial:
    """Functions of one compiler with one list of options."""

    def __init__(self, command, compiler, options, scratch):
        self.command, self.arch, self.scratch = command, COMPILERS[compiler], scratch
        self.title = f"{compiler} {options}"
        source = pathlib.Path(__file__).with_name("functions.c")
        addrsig = ["-fno-addrsig"] if compiler.startswith("clang") else []
        subprocess.run([compiler, *options.split(), *addrsig, "-w", "-S", "-o", scratch / "f.s", source], check=True)
        self.lines = (scratch / "f.s").read_text().split("\n")

    def lint(self, lines):
        """Returns the names of functions with findings, or None if as refuses the text."""
        (self.scratch / "p.s").write_text("\n".join(lines))
        tools = TOOLS[self.arch]
        for step in ([tools + "as", "-o", "p.o", "p.s"], [tools + "ld", "-shared", "-o", "p.so", "p.o"]):
            if subprocess.run(step, cwd=self.scratch, stderr=subprocess.DEVNULL).returncode:
                return None
        printed = subprocess.run([self.command, "lint", "--json", "p.so"], cwd=self.scratch, stdout=subprocess.PIPE)
        return {finding["symbol"].split("+")[0] for finding in json.loads(printed.stdout)["findings"]}

    def faults(self):
        """Plants the faults of each function, those of all functions at once."""
        all_plants = [(name, list(plants(self.lines, start, end, self.arch)))
                      for name, start, end in functions(self.lines)]
        for turn in range(max(len(found) for _, found in all_plants)):
            planted = [(name, found[turn]) for name, found in all_plants if turn < len(found)]
            lines = list(self.lines)
            for _, (_, first, last, new) in reversed(planted):
                lines[first:last + 1] = new
            hit = self.lint(lines)
            for name, (kind, first, _, new) in planted if hit is not None else []:
                yield kind, name in hit, f"{self.title}: {name}: {kind}: {self.lines[first].strip()} -> {new}"


def main(command, *compilers):
    counts, missed, accused = collections.Counter(), [], []
    with tempfile.TemporaryDirectory() as scratch:
        for compiler in compilers or COMPILERS:
            for options in OPTIONS:
                trial = Trial(pathlib.Path(command).resolve(), compiler, options, pathlib.Path(scratch))
                clean = trial.lint(trial.lines)
                if clean is None:
                    sys.exit(f"{trial.title}: as or ld refuses the text of the compiler")
                accused += [f"{trial.title}: {name}" for name in clean]
                for kind, is_found, words in trial.faults():
                    counts[trial.arch, kind, is_found] += 1
                    missed += [] if is_found else [words]
    print(*missed, sep="\n")
    failed = bool(accused)
    for arch, kind in sorted({key[:2] for key in counts}):
        found, all_of_kind = counts[arch, kind, True], counts[arch, kind, True] + counts[arch, kind, False]
        failed |= found * 100 < all_of_kind * 99
        print(f"{arch}: {kind}: {found} of {all_of_kind} found")
    print(*(f"accused without a fault: {name}" for name in accused), sep="\n")
    return failed


sys.exit(main(*sys.argv[1:]))
