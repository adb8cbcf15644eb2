"""Writes the tables of docs/readers.md."""
import pathlib

import constructs
import judge

PAGE = pathlib.Path(__file__).parent.parent.parent / "docs/readers.md"
TABLES = {
    "walks": ["libgcc", "LLVM libunwind", "HP libunwind", "gdb", "lldb", "eu-stack", "strace -k", "perf", "valgrind", "framehop"],
    "rows": ["readelf", "llvm-dwarfdump", "pyelftools", "gimli", "symbolic", "cfipack", "cfipack judge"],
    "links": ["ld.bfd", "gold", "ld.lld", "mold"],
}


def short(version):
    """Returns the part of a version that tells it from others on the page."""
    parts = version.split(".")
    return ".".join(parts[:2]) if parts[0] in ("0", "1", "2") else parts[0]


def word(outcome, what):
    """Returns a cell's word, by the table's legend."""
    if outcome == "right":
        return "✓"
    if what == judge.BY_FRAME_POINTER:
        return "fp"
    if what == judge.ENDS:
        return "ends"
    return {"skipped": "lost", "section": "all lost", "record": "none", "file": "error", "table": "table"}.get(outcome, outcome)


def cell(found):
    """Returns the cell for the outcomes of a reader's versions: one word, or one for each group of versions."""
    words = {}
    for version, outcome, what in found:
        words.setdefault(word(outcome, what), []).append(short(version))
    if len(words) == 1:
        return next(iter(words))
    return ", ".join(f"{name} {'/'.join(versions)}" for name, versions in words.items() if name != "✓")


def table(rows, readers):
    """Returns the lines of the table of these readers: the constructs that not all of them read."""
    by = {}
    for name, reader, version, outcome, what in rows:
        if reader in readers:
            by.setdefault(name, {}).setdefault(reader, []).append((version, outcome, what))
    lines = [f"|construct|{'|'.join(readers)}|", "|---" * (len(readers) + 1) + "|"]
    for construct in constructs.ALL:
        cells = [cell(by[construct.name][reader]) if reader in by[construct.name] else "" for reader in readers] if construct.name in by else []
        if not set(cells) <= {"✓", ""}:
            lines.append(f"|{construct.what}|{'|'.join(cells)}|")
    return lines


def grouped(pairs):
    """Returns readers with their versions, for a sentence."""
    versions = {}
    for name, version in pairs:
        versions.setdefault(name, {})[version] = None
    return "; ".join(f"{name} {', '.join(found)}" if not name.startswith("cfipack") else f"{name} of this tree" for name, found in versions.items())


def write(text_of_table):
    """Puts what the table has between the page's comments."""
    lines = [line.split("\t") for line in text_of_table.splitlines() if line[0] not in "#="]
    rows = [(*line, "")[:5] for line in lines if line[0] != "-"]
    failed, text = {row[0] for row in rows if row[3] != "right"}, PAGE.read_text()
    parts = {name: table(rows, readers) for name, readers in TABLES.items()}
    parts["instead"] = ["|construct|instead|", "|---|---|"]
    parts["instead"] += [f"|{construct.what}|{construct.instead}|" for construct in constructs.ALL if construct.name in failed and construct.instead]
    parts["unseen"] = [f"- {construct.what}: {construct.unseen or construct.common}" for construct in constructs.ALL
                       if construct.name in failed and (construct.unseen or construct.common)]
    parts["everybody"] = ["; ".join(construct.what for construct in constructs.ALL if construct.name not in failed) + "."]
    parts["versions"] = [grouped(row[1:3] for row in rows) + ".", "",
                         "End by a signal or an internal error for some valid CFI, which is not listed: " + grouped(line[1:3] for line in lines if line[0] == "-") + "."]
    for name, lines in parts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(start, 1)
        text = before + start + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end, 1)[1]
    PAGE.write_text(text)
