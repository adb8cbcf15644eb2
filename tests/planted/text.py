"""Faults in the directives of assembler text, as compilers of C, C++, Rust and OCaml write it. Needs GNU as and ld."""
import pathlib
import re
import subprocess
import sys

from linted import ARM, X86, at_once, findings, run

TOOLS = {X86: "", ARM: "aarch64-linux-gnu-"}
# Registers that a wrong row takes for the CFA, as DWARF numbers, and the CFA at the entry.
WRONG = {X86: ["6", "7", "3", "0", "12", "5"], ARM: ["29", "31", "19", "0", "9"]}
ENTRY = {X86: ("7", 8), ARM: ("31", 0)}
X86_NAMES = {"3": "rbx|ebx|bx|bl|bh", "6": "rbp|ebp|bp|bpl"}
NAMES = {"rbp": "6", "rsp": "7", "rbx": "3", "wsp": "31", "sp": "31"}
# Kinds of faults that rows keep until the end.
OF_REGISTERS = ("missing save", "wrong place of a register")
INSTRUCTION = re.compile(r"\s+[a-z]")
CALL = re.compile(r"\s+(callq?|blr?)\s(?!.*(_Unwind_Resume|__cxa_(re)?throw|__stack_chk_fail|terminate))")
LABEL = re.compile(r"^(?!\.L)([\w.$]+):")
# For each language the file of functions, the beginning of the compilers' names, and lists of options.
OF_C = ["-O0", "-O2", "-Os", "-O3", "-O2 -fno-omit-frame-pointer", "-O1 -fomit-frame-pointer",
        "-O2 -fstack-clash-protection", "-O2 -fstack-protector-all"]
LANGUAGES = {
    "C": ("functions.c", ("gcc", "clang"), [f"-x c {options}" for options in OF_C]),
    "C++": ("functions.cpp", ("gcc", "clang"), [f"-x c++ -fPIC {options}" for options in ("-O0", "-O2", "-Os")]),
    "Rust": ("functions.rs", ("rustc",), [f"-C opt-level={level}" for level in "02s"]),
    "OCaml": ("functions.ml", ("ocamlopt",), [""]),
}
# ocamlopt reads and writes files only.
OCAML = 'd=$(mktemp -d) && cd "$d" && cat >functions.ml && ocamlopt -S -c functions.ml >&2 && cat functions.s && rm -r "$d"'


def number(register):
    name = register.strip().lstrip("%")
    return NAMES.get(name) or re.sub("^[rwx](?=[0-9])", "", name)


def moved(lines, at, end):
    """Returns the directive at `at` one instruction later, unless another row or a label is in between."""
    after = at + 1
    while after < end and not INSTRUCTION.match(lines[after]):
        after += 1
    between = lines[at + 1:after + 1]
    if after == end or any(re.search(r"cfi_(def|adj)|state|:\s*$", line) for line in between):
        return None
    return after, [*between, lines[at]]


def is_changed(register, lines, arch):
    """Returns whether instructions mention a register other than to save and to restore it."""
    own = number(register)
    if arch == ARM:
        names, saves = f"[xw]{own}", r"\s+(stp|ldp|str|ldr)\s.*\[(sp|x29)"
    else:
        names, saves = X86_NAMES.get(own, f"r{own}[dwb]?"), r"\s+(push|pop)"
    mentions = re.compile(rf"\b({names})\b")
    return any(mentions.search(line) and INSTRUCTION.match(line) and not re.match(saves, line) for line in lines)


def is_first(instruction, lines):
    """Returns whether a row that starts at these lines applies to such an instruction."""
    found = (instruction.match(line) or re.search(r"cfi_(def|adj)|state", line) for line in lines)
    first = next(filter(None, found), None)
    return first is not None and first.re is instruction


def plants(lines, start, end, arch, others=()):
    """Yields the kind of a fault, the range of lines that it replaces, and the new lines. `others` are the lines of the
    function's other part."""
    cfa, offset = ENTRY[arch]
    states, saved = [], set()
    for at in range(start + 1, end):
        if CALL.match(lines[at]) and is_first(INSTRUCTION, lines[at + 1:end]):
            yield "row after a call", at, at, [lines[at], "\t.cfi_adjust_cfa_offset 8"]
        match = re.match(r"\s*\.cfi_(\w+)\s*([^#/]*)", lines[at])
        if not match:
            continue
        # No instruction has the row.
        if not any(map(INSTRUCTION.match, lines[at:end])):
            break
        name, arguments = match[1], [argument.strip() for argument in match[2].split(",")]
        if name == "remember_state":
            states.append((cfa, offset))
        elif name == "restore_state":
            before, (cfa, offset) = (cfa, offset), states.pop()
            if before[0] == cfa:
                yield "missing row", at, at, []
        elif name in ("offset", "rel_offset"):
            # After a return, rows go on for code before it. There the register may have the caller's value still.
            if arguments[0] not in saved and is_changed(arguments[0], [*others, *lines[start:end]], arch):
                yield "missing save", at, at, []
            saved.add(arguments[0])
            for wrong in (-8, 8):
                place = f"\t.cfi_{name} {arguments[0]}, {int(arguments[1]) + wrong}"
                yield "wrong place of a register", at, at, [place]
        elif name in ("def_cfa", "def_cfa_register", "def_cfa_offset", "adjust_cfa_offset"):
            before = cfa, offset
            if name == "adjust_cfa_offset":
                offset += int(arguments[0])
            elif name == "def_cfa_offset":
                offset = int(arguments[0])
            else:
                cfa = number(arguments[0])
                offset = int(arguments[1]) if name == "def_cfa" else offset
            # Where a register takes over, the other has the same value until an instruction changes it, and both rows are
            # right for some time.
            takes_over = cfa != before[0]
            for wrong in WRONG[arch]:
                if wrong != cfa and not (takes_over and (wrong, offset) == before):
                    yield "wrong CFA register", at, at, [f"\t.cfi_def_cfa {wrong}, {offset}"]
            is_replaced = name == "def_cfa_register" and "def_cfa_offset" in lines[at + 1]
            for wrong in (-8, 8, 16) if not is_replaced else ():
                yield "wrong CFA offset", at, at, [f"\t.cfi_def_cfa {cfa}, {offset + wrong}"]
            if not takes_over:
                yield "missing row", at, at, []
                later = moved(lines, at, end)
                if later:
                    yield "moved row", at, *later


def functions(lines):
    """Returns the name, the first and the last line of each function with CFI. gcc writes the label of a cold part after
    `.cfi_startproc`."""
    found, name, start = [], None, None
    for at, line in enumerate(lines):
        label = LABEL.match(line)
        name = label[1] if label else name
        if ".cfi_startproc" in line:
            start = at
        elif ".cfi_endproc" in line:
            found.append((name, start, at))
    return found


def compiled(compiler, name, language, options):
    """Returns the lines of the assembler text of all functions of a language."""
    command = compiler.split()
    source = pathlib.Path(__file__).with_name(LANGUAGES[language][0])
    if language == "OCaml":
        command = [*command[:-1], "sh", "-c", OCAML]
    elif language == "Rust":
        command += [*options.split(), "--edition", "2024", "--emit", "asm", "-A", "warnings", "-o", "-", "-"]
    else:
        addrsig = ["-fno-addrsig"] if "clang" in name else []
        command += [*addrsig, "-w", "-S", "-o", "-", *options.split(), "-"]
    with source.open() as functions_of_language:
        printed = subprocess.run(command, stdin=functions_of_language, stdout=subprocess.PIPE, text=True, check=True)
    # These directives of newer compilers have nothing to do with frames.
    return [line for line in printed.stdout.split("\n") if not re.match(r"\s*\.(aeabi_|prefalign)", line)]


def compiles_cpp(compiler):
    command = [*compiler.split(), "-x", "c++", "-S", "-o", "-", "-"]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, **streams, check=False).returncode == 0


def trials(command, compiler, name, scratch):
    """Yields the functions of a compiler for each language and each list of options."""
    for language, (_, names, lists) in LANGUAGES.items():
        if any(part in name for part in names):
            if language == "C++" and not compiles_cpp(compiler):
                print(f"NOT TESTED: {compiler} compiles no C++", file=sys.stderr)
                continue
            for options in lists:
                yield Trial(command, (compiler, name), language, options, scratch)


class Trial:
    """Functions of one compiler with one list of options."""

    def __init__(self, command, compiler, language, options, scratch):
        self.command, self.language, self.scratch = command, language, scratch
        self.file = scratch / "p.so"
        self.arch = ARM if "aarch64" in compiler[0] else X86
        self.title = f"{compiler[0]} {options}"
        self.lines = compiled(*compiler, language, options)

    def lint(self, lines=None):
        """Returns the findings of each function, or None if as refuses the text."""
        (self.scratch / "p.s").write_text("\n".join(lines or self.lines))
        tools = TOOLS[self.arch]
        for step in ([tools + "as", "-o", "p.o", "p.s"], [tools + "ld", "-shared", "--defsym=__dso_handle=0", "-o", "p.so", "p.o"]):
            if subprocess.run(step, cwd=self.scratch, stderr=subprocess.DEVNULL).returncode:
                return None
        report = run(self.command, self.file)
        self.is_at_calls = report["calls_only"]
        return findings(report, self.file)

    def plants(self, start, end, others, is_at_calls):
        """Returns the faults of a function that can be observed: where only rows at calls are judged, these rows change."""
        found = plants(self.lines, start, end, self.arch, others)
        return [one for one in found if not is_at_calls or one[0] in OF_REGISTERS
                or one[0] != "moved row" and is_first(CALL, self.lines[one[1] + 1:end])]

    def faults(self):
        """Plants the faults of each function, those of all functions at once."""
        parts = {name: self.lines[start:end] for name, start, end in functions(self.lines)}
        all_plants = [(name, self.plants(start, end, parts.get(name.removesuffix(".cold"), ()), self.is_at_calls))
                      for name, start, end in functions(self.lines)]
        for turn in range(max(len(found) for _, found in all_plants)):
            new = at_once(all_plants, turn)
            hit = self.planted(new)
            for one in new if hit is not None else []:
                name, (kind, first, _, lines) = one
                words = f"line {first}: {self.lines[first].strip()} -> {lines}"
                yield kind, name, words, hit, lambda one=one: self.planted([one])

    def planted(self, new):
        """Returns the findings of each function with faults, or None if as refuses the text."""
        lines = list(self.lines)
        for _, (_, first, last, replaced) in reversed(new):
            lines[first:last + 1] = replaced
        return self.lint(lines)
