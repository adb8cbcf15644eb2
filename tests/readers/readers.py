"""What all readers have in common: how they are run, where their programs are, and what they answer.

A reader that walks (walkers.py) answers with the functions of its frames and, if it can, the registers of `outer`. A reader that
prints (printers.py) answers with the row of an address. judge.py compares the answer with what is right.
"""
import dataclasses
import gzip
import os
import pathlib
import re
import signal
import subprocess

LIMIT = 30
CHAIN = ["mid", "outer", "base", "main"]
# Those of `outer` that debuggers are asked for.
REGISTERS = ["rsp", "rbx", "rbp", "r12", "r13", "r14", "r15"]
COLUMNS = {"x86-64": ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"] + [f"r{n}" for n in range(8, 16)] + ["rip"],
           "aarch64": [f"x{n}" for n in range(31)] + ["sp"]}


class Crash(Exception):
    """The reader ended by a signal, or did not end."""


@dataclasses.dataclass
class Answer:
    frames: list = None             # of a walk
    registers: dict = None
    truth: dict = None
    row: dict = None                # of a printer, None without a row
    others: bool = True             # a printer: there are rows of the function beside
    message: str = ""


def execute(command, crashes=True, **options):
    """Runs a command and returns its result. Ends by a signal are crashes of the reader unless they are expected."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=LIMIT,
                              env={**os.environ, "LC_ALL": "C", "DEBUGINFOD_URLS": "", "TERM": "dumb", **options.pop("env", {})}, **options)
    except subprocess.TimeoutExpired as expired:
        raise Crash("no end") from expired
    done.stdout, done.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if crashes and (done.returncode < 0 or done.returncode in (128 + signal.SIGSEGV, 128 + signal.SIGABRT)):
        raise Crash(str(done.returncode))
    return done


def message_of(text, *names):
    """Returns the first message of a tool without its own and the files' names."""
    for line in text.splitlines():
        line = re.sub(r"^(\S*(readelf|dwarfdump|ld|mold|gdb|lldb|objdump)[-.\w]*|error|Error|warning|Warning|fatal): ", "", line.strip())
        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
        for name in sorted(map(str, names), key=len, reverse=True):
            line = line.replace(name, "FILE")
        line = re.sub(r"/\S*/|^(error|fatal): |\(ReaderOffsetId\(\d+\)\)| (at|in entry at) 0x[0-9a-f]+", "", line)
        if line:
            return re.sub(r"\s+", " ", line)[:120]
    return ""


@dataclasses.dataclass
class Tree:
    """Where programs and libraries of another Debian are."""
    root: pathlib.Path
    own_loader: bool = True

    @property
    def libraries(self):
        return self.root / "usr/lib/x86_64-linux-gnu"

    def command(self, program):
        program = str(program)
        program = program if program.startswith("/") else str(self.root / "usr/bin" / program)
        if not self.own_loader:
            return [program]
        return [str(self.root / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(self.libraries), program]

    def version(self, package):
        """Returns the upstream version of a package, by dpkg's data base or by the package's changelog."""
        text = ""
        if (self.root / "var/lib/dpkg/status").exists():
            text = execute(["dpkg-query", f"--admindir={self.root}/var/lib/dpkg", "-W", "-f", "${Version}", package]).stdout
        if not text:
            changes = [self.root / "usr/share/doc" / package / name for name in ("changelog.Debian.gz", "changelog.gz")]
            found = [path for path in changes if path.exists()]
            if not found:
                return None
            text = re.search(r"\((.*?)\)", gzip.open(found[0], "rt", errors="replace").readline()).group(1)
        return re.sub(r"^\d+:|[-+~][^-]*(-\d.*)?$|\+really.*", "", text) or None


class Emulated(Tree):
    """The same for arm64. Its programs run in an emulator."""

    @property
    def libraries(self):
        return self.root / "usr/lib/aarch64-linux-gnu"

    def command(self, program):
        return ["qemu-aarch64", "-L", str(self.root), str(program)]


class Linker:
    kind = "link"

    def __init__(self, name, version, directory):
        self.name, self.version, self.directory = name, version, directory
