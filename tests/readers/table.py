#!/usr/bin/env python3
"""Runs every reader on every construct.

    table.py [--update] READERS COMMAND CRATES [CONSTRUCT...]

READERS is the directory of tests/readers/install. Compares the outcomes with table.tsv, or writes this file and the
tables of docs/readers.md with --update. Status 1: a reader of the same version has another outcome.
"""
import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile

import constructs
import judge
import page
import printers
import programs
import readers
import walkers
from readers import Emulated, Tree, execute

HERE = pathlib.Path(__file__).parent
TABLE = HERE / "table.tsv"
HEAD = """# What readers of CFI make of valid CFI; written by tests/readers/run --update.
# =, construct, what it is, what to do instead, why `lint --readers` cannot see it, why it reports it for named readers only
# construct, reader, version, outcome, what the reader does, and in detail with this program
#   right     as the program itself knows it
#   wrong     another row, another register of the caller, or another frame
#   skipped   the reader goes on as if the function had no CFI
#   record    the function's record is refused
#   section   the rows of other functions are lost too
#   file      a linker refuses the input
#   table     a linker leaves the search table out, for all inputs
#   crashes   on some valid CFI, which is not kept: no construct
"""


def found(version, make):
    """Returns a reader, or None if it is not there."""
    return make(version) if version else None


def all_readers(directory, command, crates):
    machine, sid, lldb = Tree(pathlib.Path("/"), False), Tree(directory / "sid"), Tree(directory / "lldb", False)
    reference = os.environ.get("CFIPACK_REFERENCE_TOOLS")
    trees = {name: Tree(pathlib.Path(reference) / name) for name in ("trixie", "sid")} if reference else {}
    own = machine.libraries
    versions = {}
    for name, number in re.findall(r'name = "(.*?)"\nversion = "(.*?)"', (HERE / "Cargo.lock").read_text()):
        versions.setdefault(name, []).append(number)
    result = [
        walkers.Library("libgcc", machine.version("libgcc-s1"), "/lib/x86_64-linux-gnu/libgcc_s.so.1", machine),
        found(sid.version("libgcc-s1"), lambda version: walkers.Library("libgcc", version, sid.libraries / "libgcc_s.so.1", sid)),
    ]
    for number in (14, 16, 19):
        tree = Tree(directory / f"llvm-{number}", False)
        result.append(found(tree.version(f"libunwind-{number}"), lambda version: walkers.Library(
            "LLVM libunwind", version, tree.root / f"usr/lib/llvm-{number}/lib/libunwind.so.1", machine)))
    result += [
        found(sid.version("llvm-libunwind1"), lambda version: walkers.Library("LLVM libunwind", version, sid.libraries / "libunwind.so.1", sid)),
        found(machine.version("libunwind8"), lambda version: walkers.Library("HP libunwind", version, own / "libunwind.so.8", machine)),
        found(sid.version("libunwind8"), lambda version: walkers.Library("HP libunwind", version, sid.libraries / "libunwind.so.8", sid)),
        found(machine.version("gdb"), lambda version: walkers.gdb(version, machine)),
        found(sid.version("gdb"), lambda version: walkers.gdb(version, sid)),
        found(lldb.version("lldb-19"), lambda version: walkers.lldb(version, lldb)),
        found(machine.version("elfutils"), lambda version: walkers.EuStack(version, machine)),
        found(sid.version("elfutils"), lambda version: walkers.EuStack(version, sid)),
        found(machine.version("strace"), lambda version: walkers.Strace(version, machine)),
        found(sid.version("strace"), lambda version: walkers.Strace(version, sid)),
        found(machine.version("valgrind"), walkers.Valgrind),
        found(machine.version("linux-perf"), walkers.Perf),
        found(machine.version("binutils"), lambda version: printers.Readelf(version, ["readelf"])),
    ]
    for tree in trees.values():
        result.append(printers.Readelf(tree.version("binutils"), tree.command("readelf")))
    result.append(found(machine.version("llvm-14"), lambda version: printers.Dwarfdump(version, ["llvm-dwarfdump-14"])))
    if trees:
        result.append(printers.Dwarfdump(trees["sid"].version("llvm-23"), trees["sid"].command("llvm-dwarfdump-23")))
    if (directory / "python").exists():
        version = execute([sys.executable, "-c", "import elftools; print(elftools.__version__)"], env={"PYTHONPATH": str(directory / "python")}).stdout.strip()
        result.append(printers.Child("pyelftools", version, ["env", f"PYTHONPATH={directory / 'python'}", sys.executable, str(HERE / "pyelftools_row.py")]))
    version = versions["gimli"][-1]
    result.append(printers.Child("gimli", version, [str(crates), "gimli"]))
    result += [walkers.Framehop(versions["framehop"][0], [str(crates), "framehop"]), printers.Symbolic(versions["symbolic-cfi"][0], [str(crates), "symbolic"]),
               printers.Cfipack("this", str(command)), printers.Judge("this", str(command))]
    result += emulated(directory)
    result += linkers(machine, trees)
    return [reader for reader in result if reader]


def emulated(directory):
    """Returns the walkers of AArch64."""
    result = []
    for suite, package, library in (("bookworm", "libunwind-16", "llvm-16/lib/libunwind.so.1"), ("sid", "llvm-libunwind1", "aarch64-linux-gnu/libunwind.so.1")):
        tree = Emulated(directory / f"arm64-{suite}")
        for name, package, library in (("libgcc", "libgcc-s1", "/lib/aarch64-linux-gnu/libgcc_s.so.1"), ("LLVM libunwind", package, f"/usr/lib/{library}")):
            result.append(found(tree.version(package), lambda version: walkers.Library(name, version, library, tree)))
    return result


def linkers(machine, trees):
    programs_of = [("ld.bfd", "binutils", machine, "ld.bfd"), ("gold", "binutils", machine, "ld.gold"), ("ld.lld", "lld-14", machine, "ld.lld-14"),
                   ("mold", "mold", machine, "mold")]
    if trees:
        programs_of += [("ld.bfd", "binutils", trees["trixie"], "ld.bfd"), ("ld.bfd", "binutils", trees["sid"], "ld.bfd"),
                        ("gold", "binutils-gold", trees["sid"], "ld.gold"), ("ld.lld", "lld-23", trees["sid"], "ld.lld-23"), ("mold", "mold", trees["sid"], "mold")]
    return [readers.Linker(name, tree.version(package), tree.command(program)) for name, package, tree, program in programs_of if tree.version(package)]


def link(linker, program, scratch, walk):
    """Returns the outcome of a link: refused, without a table, or a program that libgcc walks."""
    construct = program.construct
    own = scratch / f"{linker.name}-{linker.version}".replace(" ", "-")
    own.mkdir(exist_ok=True)
    if not (own / "ld").exists():
        (own / "ld").write_text(f'#!/bin/sh\nexec {" ".join(linker.directory)} "$@"\n')
        (own / "ld").chmod(0o755)
    path = own / construct.name
    done = execute(programs.link_command(program.path.with_suffix(".o"), path, "gcc", f"-B{own}"), crashes=False)
    if re.search(r"ld terminated with signal|internal error|Segmentation|Assertion", done.stderr):
        raise readers.Crash("linker")
    if done.returncode or not path.exists():
        return "file", judge.because("refuses the file", readers.message_of(done.stderr, program.path.with_suffix(".o"), program.path.name, own, scratch)), ""
    linked = programs.Program(path, construct)
    table = linked.search_table()
    if table is None:
        return "table", judge.because("writes no search table", readers.message_of(done.stderr, program.path.with_suffix(".o"), program.path.name)), ""
    start = linked.symbols().get("trampoline", linked.mid)
    if start not in table:
        return "skipped", "omits the function from the search table", ""
    found, what, detail = walk(linked)
    if found in ("right", walk(program)[0]):
        return "right", "", ""
    return "wrong", f"links a program in which libgcc {what}", detail


def outcome(reader, program, scratch, libgcc):
    """Returns the outcome of one reader for one construct, or None where it has none."""
    construct = program.construct
    if reader.kind == "link":
        if construct.machine != "x86-64" or construct.after == "renamed":
            return None
        return link(reader, program, scratch, lambda linked: walked(libgcc, linked))
    if reader.kind == "walk":
        return walked(reader, program) if construct.machine == reader.machine and not construct.printed else None
    return judge.judge_row(construct, reader.answer(program))


def walked(reader, program):
    return judge.judge_walk(program.construct, reader.answer(program, False), lambda: reader.answer(program, True))


def main(arguments):
    update = "--update" in arguments
    directory, command, crates, *names = [argument for argument in arguments if argument != "--update"]
    rows, crashes, failed = [], set(), False
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        scratch = pathlib.Path(temporary)
        chosen = [construct for construct in constructs.ALL if not names or construct.name in names]
        found_readers = all_readers(pathlib.Path(directory).resolve(), command, crates)
        built = [programs.build(construct, scratch) for construct in chosen]
        libgcc = found_readers[0]

        def one(program, reader):
            try:
                return outcome(reader, program, scratch, libgcc)
            except readers.Crash as crash:
                return "crashes", str(crash), ""

        jobs = [(program, reader, pool.submit(one, program, reader)) for program in built for reader in found_readers]
        for program, reader, job in jobs:
            result = job.result()
            if result is None:
                continue
            if result[0] == "crashes":
                crashes.add((reader.name, reader.version))
                print(f"    FAILED: {reader.name} {reader.version} crashes ({result[1]}): remove {program.construct.name} from constructs.py", file=sys.stderr)
                failed = True
                continue
            rows.append((program.construct.name, reader.name, reader.version, *result))
    for line in (HERE / "crashes").read_text().splitlines():
        if line and not line.startswith("#"):
            crashes.add(tuple(line.split("\t")))
    lines = ["\t".join(row).rstrip() for row in rows]
    described = ["\t".join(("=", it.name, it.what, it.instead, it.unseen, it.common)).rstrip() for it in constructs.ALL]
    crashed = ["\t".join(["-", *crash, "crashes"]) for crash in sorted(crashes)]
    if not update:
        return compare(lines + crashed, described, names) or failed
    if names:
        lines += [line for line in TABLE.read_text().splitlines() if line[0] not in "#-=" and line.split("\t")[0] not in names]
    order = [construct.name for construct in constructs.ALL]
    lines = [line for line in lines if line.split("\t")[0] in order]
    lines.sort(key=lambda line: order.index(line.split("\t")[0]))
    TABLE.write_text(HEAD + "\n".join(described + lines + crashed) + "\n")
    page.write(TABLE.read_text())
    return failed


def compare(lines, described, names):
    """Prints what differs from the table, and what is of another version than any there."""
    text = TABLE.read_text().splitlines()
    old = [line.split("\t") for line in text if line[0] not in "#="]
    known = {tuple(line[:3]): line[3:] for line in old}
    versions, differs, others = {(line[1], line[2]) for line in old}, False, set()
    if described != [line for line in text if line[0] == "="]:
        print("    FAILED: the table describes other constructs: run with --update", file=sys.stderr)
        differs = True
    for line in (line.split("\t") for line in lines):
        if names and line[0] not in names:
            continue
        if (line[1], line[2]) not in versions:
            others.add(" ".join(line[1:3]))
        elif known.get(tuple(line[:3])) != line[3:]:
            print(f"    FAILED: {' '.join(line[:3])}: {' '.join(line[3:])}, and not {' '.join(known.get(tuple(line[:3]), ['nothing']))}", file=sys.stderr)
            differs = True
    run = {(line.split("\t")[1], line.split("\t")[2]) for line in lines}
    for name, version in sorted(versions - run):
        print(f"    NOT TESTED: {name} {version} is not here", file=sys.stderr)
    for name in sorted(others):
        print(f"    {name} is not in the table: run with --update")
    print(f"    {len(lines)} cells")
    return differs


sys.exit(main(sys.argv[1:]))
