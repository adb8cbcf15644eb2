#!/usr/bin/env python3
"""Plants one wrong rule of CFI at a time in compiled functions, and counts what `cfi2sframe lint` finds.

    tests/planted/plant.py CFI2SFRAME COMPILER...

A compiler is a command, for example "gcc", "clang --target=aarch64-linux-gnu" or "chroot DIRECTORY ocamlopt". Prints for
each language, architecture and kind of fault how many functions with the fault have a new finding, and each fault that is
missed, with the verdict about the function. Faults that change no row that can be observed are not planted. Status 1: fewer
than 99 % of a kind are found, lint accuses a function without a fault, or no fault is planted for a compiler.
"""
import collections
import pathlib
import sys
import tempfile

import debug_frame
import linted
import text

# The CFI of Go omits the saved frame pointer on x86-64, and the return address at the call for more stack on AArch64.
ACCUSED = {"Go"}


def trials(command, compiler, scratch):
    """Yields the functions of a compiler for each language and each list of options."""
    name = pathlib.Path(next(word for word in reversed(compiler.split()) if not word.startswith("-"))).name
    if name.startswith("go"):
        yield from (debug_frame.Trial(command, compiler, arch, scratch) for arch in debug_frame.ARCHES)
    else:
        yield from text.trials(command, compiler, name, scratch)


def main(command, *compilers):
    command = pathlib.Path(command).resolve()
    counts, missed, accused = collections.Counter(), [], []
    with tempfile.TemporaryDirectory() as scratch:
        for compiler in compilers:
            tested = counts.total()
            for trial in trials(command, compiler, pathlib.Path(scratch)):
                clean = trial.lint()
                if clean is None:
                    sys.exit(f"{trial.title}: as or ld refuses the text of the compiler")
                if trial.language not in ACCUSED:
                    accused += [f"{trial.title}: {name}" for name in clean]
                for kind, name, words, hit, alone in trial.faults():
                    if trial.language not in ACCUSED and name in clean:
                        continue
                    def is_new(found, name=name):
                        return bool(found.get(name, set()) - clean.get(name, set()))
                    # A fault in another part of the function can leave this part undecided.
                    is_found = is_new(hit) or is_new(alone())
                    counts[trial.language, trial.arch, kind, is_found] += 1
                    if not is_found:
                        verdict = "clean" if linted.is_clean(command, trial.file, name) else "undecided"
                        missed.append(f"{verdict}: {trial.title}: {name}: {kind}: {words}")
            if counts.total() == tested:
                sys.exit(f"{compiler}: no fault is planted: the last word that is no option must be gcc, clang, rustc or the like")
    print(*missed, sep="\n")
    failed = bool(accused)
    for key in sorted({key[:3] for key in counts}):
        found, missing = counts[*key, True], counts[*key, False]
        failed |= found * 100 < (found + missing) * 99
        print(f"{': '.join(key)}: {found} of {found + missing} found")
    print(*(f"accused without a fault: {name}" for name in accused), sep="\n")
    return failed


sys.exit(main(*sys.argv[1:]))
