"""What is right: compares the answer of a reader with the construct. A judgement is the outcome, what the reader does, as a part of
a sentence about any file, and what it did with this program."""
import re

from readers import CHAIN

BY_FRAME_POINTER = "goes on by the frame pointer, and omits callers"
ENDS = "ends the walk"


def same_rule(expected, got):
    if expected == got:
        return True
    if got is None:
        return expected == "s"
    if expected in ("exp", "vexp"):
        return got.startswith(("exp", "vexp")) or bool(re.fullmatch(r"[cv][+-]\d+|\w+\+\d+", got))
    return re.sub(r"\+0$", "", got) == expected


def judge_row(construct, answer):
    if answer.row is None:
        return ("record" if answer.others else "section"), because("prints no row" if answer.others else "prints no row of the file", answer.message), ""
    differs = [f"{'' if name == 'cfa' else 'column '}{name} {answer.row.get(name, 'none')}" for name, rule in construct.row.items()
               if not same_rule(rule, answer.row.get(name))]
    if not differs:
        return "right", "", ""
    return "wrong", "prints another CFA" if differs[0].startswith("cfa") else "prints another rule of a register", ", ".join(differs)


def because(what, message):
    return f"{what} ({message})" if message else what


def judge_walk(construct, answer, beside):
    """`beside` makes the answer of a walk through the function beside, which shows whether others are read."""
    frames = after_leaf(answer)
    if construct.ends:
        if frames[:1] == ["mid"] and not set(frames[1:]) & set(CHAIN):
            return "right", "", ""
        return "wrong", "goes on above the outermost frame", " ".join(frames[:4])
    if frames[:4] == CHAIN or (frames[:3] == CHAIN[:3] and (len(frames) == 3 or "main" in frames)):
        if not answer.registers:
            return "right", "", ""
        undefined = [name for name in ("r12",) if construct.row.get(12) == "u"]
        differs = [f"{name} {show(answer, name)}" for name in answer.truth if name not in undefined and answer.registers.get(name) != answer.truth[name]]
        return ("wrong", "has another value of a register", ", ".join(differs)) if differs else ("right", "", "")
    other = beside()
    others = other and judge_beside(other)
    kind = "skipped" if others else "section"
    everywhere = "" if others else ", from other functions too"
    if frames in ([], ["mid"]):
        return kind, ENDS + everywhere, ""
    if frames[0] == "mid" and "main" in frames and "outer" not in frames:
        return kind, BY_FRAME_POINTER + everywhere, ""
    return ("wrong" if others else kind), "goes on to another frame" + everywhere, " ".join(frames[:4])


def judge_beside(answer):
    return after_leaf(answer)[:3] == ["beside", "outer", "base"]


def after_leaf(answer):
    """Returns the functions of the frames above leaf's. Labels within a function are not names."""
    frames = [{"here": "mid", "trampoline": "mid"}.get(name, name) for name in answer.frames]
    while "leaf" in frames:
        frames = frames[frames.index("leaf") + 1:]
    return frames


def show(answer, name):
    if name in ("rsp", "sp") and abs(answer.registers[name] - answer.truth[name]) < 4096:
        return f"{answer.registers[name] - answer.truth[name]:+}"
    return "is another"
