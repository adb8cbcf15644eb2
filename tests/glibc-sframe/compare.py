"""Run by gdb in a stopped program with walk.so: compares each walk of backtrace() with gdb's own, frame by frame.

glibc 2.43 looks up return addresses as they are, gdb the byte before: after a call that does not return and is its
function's last instruction (exit's), the address is in no function or the next one, and backtrace() gives up. Such walks
are counted apart. The last line printed has the number of walks, of those that were equal, of those with such a call, of
those that ended early otherwise or differed, and of frames compared."""
import os

import gdb

walks = int(os.environ["WALKS"])
equal = noreturn = short = different = frames = 0


def by_gdb():
    """Returns the PCs of the frames above walk(). Inlined functions and tail calls have no frame and are skipped."""
    found, frame = [], gdb.newest_frame()
    while frame is not None and frame.is_valid():
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            found.append(frame.pc())
        frame = frame.older()
    return found[2:]


def function(pc):
    """Returns the name of the function, without the offset in it."""
    return gdb.execute(f"info symbol {pc:#x}", to_string=True).split(" ")[0]


def is_after_function(pc):
    return function(pc) != function(pc - 1)


def by_backtrace():
    count = int(gdb.parse_and_eval("(int) walk_count"))
    address = int(gdb.parse_and_eval("(unsigned long) &walk_frames"))
    memory = gdb.selected_inferior().read_memory(address, 8 * count)
    return [int.from_bytes(bytes(memory[at:at + 8]), "little") for at in range(8, 8 * count, 8)]


gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set backtrace limit 2000")
gdb.execute("set backtrace past-main on")
gdb.execute("handle SIGSTOP nostop noprint nopass")
gdb.Breakpoint("walk_done").silent = True
while equal + noreturn + short + different < walks:
    gdb.execute("continue", to_string=True)
    if not gdb.selected_inferior().pid or not gdb.selected_thread():
        break
    expected, found = by_gdb(), by_backtrace()
    frames += len(found)
    if found == expected:
        equal += 1
        continue
    same = 0
    while same < min(len(found), len(expected)) and found[same] == expected[same]:
        same += 1
    if same == len(found) and any(is_after_function(pc) for pc in expected):
        noreturn += 1
        continue
    if same == len(found):
        short += 1
    else:
        different += 1
    if short + different <= 10:
        kind = "ends early" if same == len(found) else "differs"
        names = ", ".join(gdb.format_address(pc) for pc in expected)
        print(f"{kind}: {same} of {len(expected)} frames as gdb's: {names}")
total = equal + noreturn + short + different
print(f"walks {total} equal {equal} noreturn {noreturn} short {short} different {different} frames {frames}")
