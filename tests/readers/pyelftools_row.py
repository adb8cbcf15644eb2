"""Prints the row that pyelftools has for an address: `cfa=r7+64 3=c-16`, or the error.

    pyelftools_row.py FILE OFFSET SIZE ADDRESS PC      the section's numbers are for other readers
"""
import sys

from elftools.dwarf.callframe import FDE, RegisterRule
from elftools.elf.elffile import ELFFile

FORMS = {RegisterRule.UNDEFINED: "u", RegisterRule.SAME_VALUE: "s", RegisterRule.EXPRESSION: "exp", RegisterRule.VAL_EXPRESSION: "vexp"}


def shown(rule):
    if rule.type in FORMS:
        return FORMS[rule.type]
    if rule.type == RegisterRule.REGISTER:
        return f"r{rule.arg}"
    return ("c" if rule.type == RegisterRule.OFFSET else "v") + f"{rule.arg:+}"


def main(path, pc):
    for entry in ELFFile(open(path, "rb")).get_dwarf_info().EH_CFI_entries():
        if not isinstance(entry, FDE) or not entry["initial_location"] <= pc < entry["initial_location"] + entry["address_range"]:
            continue
        row = [line for line in entry.get_decoded().table if line["pc"] <= pc][-1]
        cfa = row.pop("cfa")
        row.pop("pc")
        print("cfa=exp" if cfa.expr is not None else f"cfa=r{cfa.reg}{cfa.offset:+}", *(f"{name}={shown(rule)}" for name, rule in row.items()))
        return None
    return "no FDE has the address"


try:
    sys.exit(main(sys.argv[1], int(sys.argv[5])))
except Exception as error:
    sys.exit(f"{type(error).__name__} {error}".strip())
