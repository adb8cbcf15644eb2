"""What is right: compares the answer of a reader with the construct."""
import re

from readers import CHAIN, REGISTERS


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
        return ("record" if answer.others else "section"), answer.message
    differs = [f"{'' if name == 'cfa' else 'column '}{name} {answer.row.get(name, 'none')}" for name, rule in construct.row.items()
               if not same_rule(rule, answer.row.get(name))]
    return ("wrong", ", ".join(differs)) if differs else ("right", "")


def judge_walk(construct, answer, beside):
    """`beside` makes the answer of a walk through the function beside, which shows whether others are read."""
    frames = after_leaf(answer)
    if construct.ends:
        return ("right", "") if frames[:1] == ["mid"] and not set(frames[1:]) & set(CHAIN) else ("wrong", "goes on: " + " ".join(frames[:4]))
    if frames[:4] == CHAIN or (frames[:3] == CHAIN[:3] and (len(frames) == 3 or "main" in frames)):
        if not answer.registers:
            return "right", ""
        undefined = [name for name in ("r12",) if construct.row.get(12) == "u"]
        differs = [f"{name} {show(answer, name)}" for name in REGISTERS if name not in undefined and answer.registers.get(name) != answer.truth.get(name)]
        return ("wrong", ", ".join(differs)) if differs else ("right", "")
    other = beside()
    others = other and judge_beside(other)
    kind = "skipped" if others else "section"
    if frames in ([], ["mid"]):
        return kind, "the walk ends"
    if frames[0] == "mid" and "main" in frames and "outer" not in frames:
        return kind, "goes on by rbp"
    return ("wrong" if others else kind), "frames " + " ".join(frames[:4])


def judge_beside(answer):
    return after_leaf(answer)[:3] == ["beside", "outer", "base"]


def after_leaf(answer):
    """Returns the functions of the frames above leaf's. Labels within a function are not names."""
    frames = [{"here": "mid", "trampoline": "mid"}.get(name, name) for name in answer.frames]
    while "leaf" in frames:
        frames = frames[frames.index("leaf") + 1:]
    return frames


def show(answer, name):
    if name == "rsp" and abs(answer.registers[name] - answer.truth[name]) < 4096:
        return f"{answer.registers[name] - answer.truth[name]:+}"
    return "is another"
