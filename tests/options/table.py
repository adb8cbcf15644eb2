#!/usr/bin/env python3
"""Compiles functions.c with each option of the file `options`, and counts what `cfi2sframe lint` says.

    tests/options/table.py CFI2SFRAME COMPILER...

Prints a line for each option: for each compiler the number of functions, of accused functions and of undecided
functions, or "-" if the compiler refuses the option; then a line for each group of options with the objects and the sums
of these numbers. `right` has what is accused with a reason. Status 1: a function is accused that `right` does not have.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def groups():
    """Returns the options, each with the comment before it."""
    group, found = None, {}
    for line in (HERE / "options").read_text().split("\n"):
        if line.startswith("# "):
            group = line[2:]
        elif line:
            found[line] = group
    return found


def known():
    """Returns the reasons of `right`: expressions for the compiler, the option, and FUNCTION: KIND of the finding."""
    lines = (HERE / "right").read_text().split("\n")
    return [list(map(re.compile, line.split("\t")[:3])) for line in lines if line and not line.startswith("#")]


def trial(command, compiler, option, scratch):
    """Returns lint's JSON for an object, or None if the compiler refuses the option."""
    words = [option] if option.startswith("-DEACH") and " -" not in option else shlex.split(option, posix=False)
    with tempfile.TemporaryDirectory(dir=scratch) as own:
        # An option or attribute that the compiler ignores is refused, too.
        ignored = ["unused-command-line-argument", "ignored-attributes", "unknown-attributes"]
        errors = [f"-Werror={name}" for name in (ignored if compiler.startswith("clang") else ["attributes"])]
        compiled = [*compiler.split(), *errors, "-O2", *words, "-c", "-o", "f.o"]
        done = subprocess.run([*compiled, (HERE / "functions.c").resolve()], cwd=own, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            return None
        printed = subprocess.run([command, "lint", "--json", "f.o"], cwd=own, stdout=subprocess.PIPE)
        return json.loads(printed.stdout)


def main(command, *compilers):
    command, options, reasons = pathlib.Path(command).resolve(), groups(), known()
    wrong, sums = collections.defaultdict(list), collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(option, compiler): pool.submit(trial, command, compiler, option, scratch)
                for option in options for compiler in compilers}
        print("option", *compilers, sep="\t")
        for option in options:
            fields = []
            for compiler in compilers:
                report = jobs[option, compiler].result()
                if report is None:
                    fields.append("-")
                    continue
                accused = collections.defaultdict(set)
                for finding in report["findings"]:
                    accused[re.sub(r"\+0x.*", "", finding.get("symbol") or "?")].add(finding["kind"])
                numbers = [report["decided"] + report["undecided"], len(accused), report["undecided"]]
                fields.append(" ".join(map(str, numbers)))
                sums[options[option]].update(dict(zip(["objects", "functions", "accused", "undecided"], [1, *numbers])))
                for function, kind in sorted((function, kind) for function, kinds in accused.items() for kind in kinds):
                    of = [compiler, option, f"{function}: {kind}"]
                    if not any(all(map(re.Pattern.fullmatch, reason, of)) for reason in reasons):
                        wrong[f"{compiler} {option}: {kind}"].append(function)
            print(option, *fields, sep="\t", flush=True)
    for group, numbers in sums.items():
        print(f"{group}: {list(options.values()).count(group)} options,", *(f"{count} {name}" for name, count in numbers.items()))
    for words, functions in wrong.items():
        print(f"accused: {words}:", *functions)
    return bool(wrong)


sys.exit(main(*sys.argv[1:]))
