"""Runs `cfi2sframe lint`."""
import collections
import json
import subprocess

X86, ARM = "x86_64", "aarch64"


def run(command, file, *arguments):
    """Returns the report of `lint`."""
    command = [command, "lint", "--json", *arguments, file]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)


def findings(report, file):
    """Returns the findings of each function, by each of its symbols."""
    found = collections.defaultdict(set)
    for finding in report["findings"]:
        found[int(finding["function"], 16)].add((finding["pc"], finding["kind"], finding["words"]))
    return {name: found[place] for name, place in symbols(file) if place in found}


def is_clean(command, file, name):
    """Returns whether all of a function's instructions were compared."""
    return run(command, file, "--function", name)["undecided"] == 0


def symbols(file):
    """Returns the names and the addresses of functions."""
    printed = subprocess.run(["nm", file], stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = (line.split(" ", 2) for line in printed.splitlines())
    return [(name, int(place, 16)) for place, kind, name in lines if kind in "tTwW" and place]


def at_once(plants, turn):
    """Returns the name and a fault of each function that has faults for another turn. The faults of a turn differ from
    function to function, because a file whose functions have no rows for the ends of their frames is judged at calls only."""
    numbered = [(number, *one) for number, one in enumerate(plants)]
    return [(name, found[(turn + number) % len(found)]) for number, name, found in numbered if turn < len(found)]
