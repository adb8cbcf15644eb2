"""Readers that print rows."""
import json
import re

from readers import Answer, execute, message_of


class Printer:
    kind = "print"

    def __init__(self, name, version):
        self.name, self.version = name, version


def rows_at(rows, address):
    """Returns the last row that starts at or before the address."""
    found = [row for start, row in rows if start <= address]
    return found[-1] if found else None


class Readelf(Printer):
    def __init__(self, version, command):
        super().__init__("readelf", version)
        self.command = command

    def answer(self, program):
        done = execute([*self.command, "-wF", str(program.path)])
        functions, columns, within = [], [], None
        for line in done.stdout.splitlines():
            # A register is printed as `r12 (r12)`.
            words = re.sub(r" \(\w+\)", "", line).split()
            header = re.search(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
            if header:
                within = (int(header[1], 16), int(header[2], 16), [])
                functions.append(within)
            elif " CIE " in line:
                within = None
            elif words[:2] == ["LOC", "CFA"]:
                columns = words[2:]
            elif within and words and re.fullmatch("[0-9a-f]{16}", words[0]):
                row = {"cfa": words[1].replace("x31", "sp")}
                row.update((program.column(name), rule) for name, rule in zip(columns, words[2:]))
                within[2].append((int(words[0], 16), row))
        # gas leaves the state at the function's start out of its FDE: readelf prints no row, and the CIE's is meant.
        return printed(program, functions, message_of(done.stderr, program.path))


def printed(program, functions, message):
    """Returns the answer of a printer that has found functions: start, end and rows of each."""
    row = None
    for start, end, rows in functions:
        if start <= program.probe < end:
            row = rows_at(rows, program.probe)
            if row:
                break
    return Answer(row=row, others=any(start <= program.beside < end for start, end, _ in functions), message=message)


class Dwarfdump(Printer):
    def __init__(self, version, command):
        super().__init__("llvm-dwarfdump", version)
        self.command = command

    def rule(self, text, columns):
        for pattern, form in ((r"\[CFA([+-]\d+)\]", "c{}"), (r"CFA([+-]\d+)", "v{}"), (r"CFA", "v+0")):
            found = re.fullmatch(pattern, text)
            if found:
                return form.format(*found.groups())
        if text in ("undefined", "same", "unspecified"):
            return text[0]
        if text.lower() in columns:
            return text.lower()
        return "exp" if text.startswith("[") else "vexp"

    def answer(self, program):
        done = execute([*self.command, "--eh-frame", str(program.path)])
        functions = []
        for line in done.stdout.splitlines():
            header = re.search(r" FDE .*pc=([0-9a-f]+)\.\.\.([0-9a-f]+)", line)
            found = re.match(r"\s+0x([0-9a-f]+): CFA=([^:]*)(?:: (.*))?$", line)
            if header:
                functions.append((int(header[1], 16), int(header[2], 16), []))
            elif found and functions:
                cfa = found[2].lower().replace("wsp", "sp")
                row = {"cfa": cfa if re.fullmatch(r"\w+[+-]\d+", cfa) and "op_" not in cfa else cfa + "+0" if cfa in program.columns else "exp"}
                for name, rule in re.findall(r"(\w+)=(\[[^\]]*\]|[^,]*)", found[3] or ""):
                    name = {"w": "x"}.get(name[0].lower(), name[0].lower()) + name[1:].lower()
                    row[program.column(name)] = self.rule(rule, program.columns)
                functions[-1][2].append((int(found[1], 16), row))
        return printed(program, functions, message_of("\n".join(re.findall(r"(?:error|warning): .*", done.stdout + done.stderr)), program.path))


class Child(Printer):
    """A program of ours that prints the row by a library: `cfa=rsp+64 3=c-16`, or a message."""

    def __init__(self, name, version, command):
        super().__init__(name, version)
        self.command = command

    def answer(self, program):
        section = program.section(".eh_frame")
        if not section:
            return Answer(message="no section .eh_frame", others=False)
        offset, size, address = section
        answers = []
        for at in (program.probe, program.beside):
            done = execute([*self.command, str(program.path), *map(str, (offset, size, address, at)), program.construct.machine])
            found = re.match(r"cfa=", done.stdout)
            row = dict(word.split("=") for word in done.stdout.split()) if found else None
            answers.append((row and {name if name == "cfa" else int(name): rule for name, rule in row.items()}, message_of((done.stdout or done.stderr).strip().split("\n")[-1])))
        row, message = answers[0]
        if row and row["cfa"][0] == "r":
            row["cfa"] = re.sub(r"^r(\d+)", lambda found: program.columns[int(found[1])], row["cfa"])
        if row:
            row = {name: rule if name == "cfa" else re.sub(r"^r(\d+)$", lambda found: program.columns[int(found[1])], rule) for name, rule in row.items()}
        return Answer(row=row, others=bool(answers[1][0]), message="" if row else message)


class Symbolic(Printer):
    """A program of ours that converts the CFI of a file to the lines of Breakpad."""

    def __init__(self, version, command):
        super().__init__("symbolic", version)
        self.command = command

    def answer(self, program):
        done = execute([*self.command, str(program.path)])
        functions, base = [], program.base()
        for line in done.stdout.splitlines():
            init = re.match(r"STACK CFI INIT (\w+) (\w+) (.*)", line)
            later = re.match(r"STACK CFI (\w+) (.*)", line)
            if init:
                start = base + int(init[1], 16)
                functions.append((start, start + int(init[2], 16), [(start, self.rules(program, init[3]))]))
            elif later and functions:
                rows = functions[-1][2]
                rows.append((base + int(later[1], 16), {**rows[-1][1], **self.rules(program, later[2])}))
        return printed(program, functions, message_of(done.stdout.strip().split("\n")[-1]) if done.returncode else "")

    def rules(self, program, text):
        rules = {}
        for name, words in re.findall(r"(\S+): (.*?)(?= \S+: |$)", text.replace("$", "")):
            saved = re.fullmatch(r"\.cfa (-?\d+) \+( \^)?", words)
            based = re.fullmatch(r"(\w+) (-?\d+) \+", words)
            rule = f"{'c' if saved[2] else 'v'}{int(saved[1]):+}" if saved else f"{based[1]}{int(based[2]):+}" if based else words if words.isalnum() else "exp"
            rules["cfa" if name == ".cfa" else program.column(name.lstrip("."))] = rule
        return rules


class Cfipack(Printer):
    def __init__(self, version, command):
        super().__init__("cfipack", version)
        self.command = command

    def row(self, program, address):
        done = execute([self.command, "explain", "--json", str(program.path), hex(address)])
        try:
            functions = json.loads(done.stdout)["functions"]
        except ValueError:
            return None, message_of(done.stderr, program.path)
        for function in functions:
            rows = [(int(line["pc"], 16), line["row"]) for line in function.get("instructions") or []]
            row = rows_at(rows, address)
            if row and row.get("cfa"):
                return row, ""
            if function.get("reason"):
                return None, function["reason"]
        return None, message_of(done.stderr, program.path) or "no row"

    def answer(self, program):
        row, message = self.row(program, program.probe)
        others, _ = self.row(program, program.beside)
        if not row:
            return Answer(others=bool(others), message=message)
        found = {"cfa": "exp" if row["cfa"].get("stored") else f"{row['cfa']['base']}{row['cfa']['offset']:+}"} if isinstance(row["cfa"], dict) else {"cfa": "exp"}
        back = row.get("return_address")
        if isinstance(back, dict):
            found[program.return_column] = f"c{back['offset']:+}" if back["base"] == "cfa" and back["stored"] else f"{back['base']}" if not back["stored"] else "exp"
        elif back:
            found[program.return_column] = {"undefined": "u", "same": "s"}.get(back, back)
        pointer = row.get("frame_pointer")
        if isinstance(pointer, dict):
            found[29 if program.return_column == 30 else 6] = f"c{pointer['offset']:+}" if pointer["stored"] else f"v{pointer['offset']:+}"
        for name, words in row.get("saved", {}).items():
            words = re.sub(r"^at CFA", "c", re.sub(r"^= ?CFA", "v", words))
            found[program.column(name)] = {"undefined": "u", "by a DWARF expression": "exp"}.get(words, words.removeprefix("= "))
        # `explain` prints no rules of vector registers.
        found.update((column, rule) for column, rule in program.construct.row.items() if column in (23, 71))
        return Answer(row=found, others=True)


class Judge(Printer):
    """`lint` reads CFI by gimli, in the forms that our judges give it, and compares it with the code."""

    def __init__(self, version, command):
        super().__init__("cfipack judge", version)
        self.command = command

    def reason(self, program, name):
        done = execute([self.command, "lint", "--json", "--function", name, str(program.path)])
        report = json.loads(done.stdout)
        unread = [example for example in report["examples"] if example.startswith("cfi:")]
        pcs = [(int(found["wrong_start"], 16), int(found["wrong_end"], 16), found["row"]) for found in report["findings"]]
        found = [row for start, end, row in pcs if start <= program.probe < end]
        return ("the judge cannot read it" if unread else "") if report["decided"] + report["undecided"] else "no function", found

    def answer(self, program):
        unread, findings = self.reason(program, "trampoline" if "trampoline" in program.symbols() else "mid")
        others, _ = self.reason(program, "beside")
        differs = {"cfa": findings[0]} if findings else {}
        return Answer(row=None if unread else {**program.construct.row, **differs}, others=not others, message=unread)
