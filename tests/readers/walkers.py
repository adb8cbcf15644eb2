"""Readers that walk: unwinders, which the program opens, and debuggers and tracers of the program."""
import collections
import re
import subprocess
import tempfile

from readers import CHAIN, REGISTERS, Answer, Emulated, execute, message_of


class Walker:
    kind, machine = "walk", "x86-64"

    def __init__(self, name, version):
        self.name, self.version = name, version

    def program(self, program, mode, beside):
        return [str(program.path), mode, *(["beside"] if beside else [])]

    def answer(self, program, beside):
        raise NotImplementedError


def registers_of(text, line="registers"):
    found = re.findall(rf"^{line} (.*)$", text, re.M)
    return {name: int(value, 16) for name, value in re.findall(r"(\w+)=(\w+)", found[0])} if found else None


def truth_of(text):
    return registers_of(text, "truth")


class Library(Walker):
    """A library with _Unwind_Backtrace, which the program opens."""

    def __init__(self, name, version, library, tree):
        super().__init__(name, version)
        self.library, self.tree = str(library), tree
        self.machine = "aarch64" if isinstance(tree, Emulated) else "x86-64"

    def answer(self, program, beside):
        words = self.program(program, self.library, beside)
        command = [*self.tree.command(words[0]), *words[1:]] if self.tree.own_loader else words
        done = execute(command)
        frames = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("frame ")]
        return Answer(frames=["leaf"] + [name for name in frames if name in CHAIN + ["beside"]], registers=registers_of(done.stdout), truth=truth_of(done.stdout))


class Attached(Walker):
    """A program that is attached to the stopped process."""

    def __init__(self, name, version, command, arguments, env=None):
        super().__init__(name, version)
        self.command, self.arguments, self.env = command, arguments, env or {}

    def answer(self, program, beside):
        process = subprocess.Popen(self.program(program, "pause", beside), stdout=subprocess.PIPE)
        try:
            truth = truth_of(process.stdout.readline().decode())
            done = self.attached(process.pid, program, truth)
        finally:
            process.kill()
            process.wait()
        return Answer(frames=self.frames(done.stdout), registers=self.registers(done.stdout), truth=truth, message=message_of(done.stderr))

    def attached(self, pid, _program, _truth):
        return execute([*self.command, *self.arguments(pid)], env=self.env)

    def frames(self, text):
        names = re.findall(r"^#\d+\s+(?:0x[0-9a-f]+ in )?(\w+|\?\?|<signal handler called>)", text.split("END")[0], re.M)
        return [name.replace("<signal handler called>", "mid") for name in names]

    def registers(self, text):
        found = {name: int(value, 16) for name, value in re.findall(r"^\s*(r\w+) = 0x([0-9a-f]+)", text, re.M)}
        return {name: found[name] for name in REGISTERS} if all(name in found for name in REGISTERS) else None


def gdb(version, tree):
    show = [word for name in REGISTERS for word in ("-ex", f'printf "{name} = 0x%lx\\n", ${name}')]
    data = ["--data-directory", f"{tree.root}/usr/share/gdb"] if tree.own_loader else []
    return Attached("gdb", version, tree.command("gdb"), lambda pid: [
        "-nx", "-nh", "-batch", *data, "-iex", "set auto-load no", "-p", str(pid), "-ex", "bt 8", "-ex", "echo END\\n", "-ex", "frame function outer", *show],
        {"PYTHONHOME": f"{tree.root}/usr"} if tree.own_loader else {})


class Lldb(Attached):
    def frames(self, text):
        return re.findall(r"frame #\d+: 0x[0-9a-f]+ [^`\n]*`(\w+)", text.split("frame select")[0])


def lldb(version, tree):
    return Lldb("lldb", version, [str(tree.root / "usr/bin/lldb-19")], lambda pid: [
        "-x", "-b", "-p", str(pid), "-o", "bt 8", "-o", "frame select 2", "-o", "register read " + " ".join(REGISTERS)],
        {"LD_LIBRARY_PATH": f"{tree.libraries}:{tree.root}/usr/lib/llvm-19/lib"})


class EuStack(Attached):
    def __init__(self, version, tree):
        super().__init__("eu-stack", version, tree.command("eu-stack"), lambda pid: ["-p", str(pid)])

    def frames(self, text):
        return re.findall(r"^#\d+\s+0x[0-9a-f]+(?: - 1)?\s+(\w+)", text, re.M)


class Framehop(Attached):
    """A program of ours, which gets the sections by their names, as profilers do."""

    def __init__(self, version, command):
        super().__init__("framehop", version, command, None)

    def attached(self, pid, program, truth):
        sections = [(name, program.section(name)) for name in (".text", ".eh_frame", ".eh_frame_hdr", ".got.plt")]
        words = [":".join(map(str, (name, *place))) for name, place in sections if place]
        done = execute([*self.command, str(program.path), str(pid), hex(truth["rbp"]), *words])
        done.stdout = "\n".join(program.function_at(int(line, 16)) for line in done.stdout.split())
        return done

    def frames(self, text):
        return text.split()

    def registers(self, _text):
        return None


class Strace(Walker):
    def __init__(self, version, tree):
        super().__init__("strace -k", version)
        self.command = tree.command("strace")

    def answer(self, program, beside):
        done = execute([*self.command, "-k", "-e", "trace=sched_yield", *self.program(program, "yield", beside)])
        return Answer(frames=re.findall(r"^ > \S*\((\w+)\+0x", done.stderr, re.M), truth=truth_of(done.stdout),
                      message=message_of("\n".join(re.findall("^ > (.*error.*)$", done.stderr, re.M))))


class Valgrind(Walker):
    def __init__(self, version):
        super().__init__("valgrind", version)

    def answer(self, program, beside):
        done = execute(["valgrind", "--tool=none", "--num-callers=9", *self.program(program, "trap", beside)], crashes=False)
        return Answer(frames=re.findall(r"== +(?:at|by) 0x[0-9A-F]+: (\w+)", done.stderr.split("Illegal opcode")[-1]), truth=truth_of(done.stdout))


class Perf(Walker):
    def __init__(self, version):
        super().__init__("perf", version)

    def answer(self, program, beside):
        with tempfile.TemporaryDirectory() as scratch:
            data = f"{scratch}/data"
            done = execute(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "100", "--call-graph", "dwarf,4096", "-o", data, *self.program(program, "spin", beside)])
            printed = execute(["perf", "script", "-i", data, "-F", "ip,sym"]).stdout
        stacks = collections.Counter()
        for sample in printed.split("\n\n"):
            names = [words[1] for words in (line.split() for line in sample.splitlines()) if len(words) > 1]
            if "leaf" in names:
                stacks[tuple(names[names.index("leaf"):])] += 1
        return Answer(frames=list(stacks.most_common(1)[0][0]) if stacks else [], truth=truth_of(done.stdout))
