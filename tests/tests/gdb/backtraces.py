# Run by gdb (tests/tests/gdb/main.rs): stops an x86-64 or AArch64 program at many places and writes to the file
# CFIPACK_BACKTRACES, at each, the data for unwinding and the frames that gdb finds. One line each:
#
#   started           the program can be run
#   map LINE          a line of /proc/PID/maps; all of them again whenever they change
#   stop PC R0 ..     the registers by DWARF number: 16 of x86-64, or 32 of AArch64
#   stack ADDRESS HEX the stack from a little below the stack pointer
#   frame PC CFA      frames from the innermost on; the outermost frame has no caller and no CFA
#   end REASON        why gdb stops
#
# CFIPACK_STOPS, CFIPACK_STOPS_SEED: the number of stops, and the seed of the distances between them.
# CFIPACK_STOPS_DISTANCE: the largest distance in instructions.
# CFIPACK_STOPS_AT: functions. The program runs on to a call of one of them before each distance.
# CFIPACK_STOPS_ROOT: the root directory of the AArch64 program, which qemu-user runs. Empty for a program of this machine.
import os
import random
import shlex
import struct
import subprocess
import time

X86_64 = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split()
AARCH64 = ["x%d" % n for n in range(31)] + ["sp"]
ROOT = os.environ["CFIPACK_STOPS_ROOT"]
NAMES, SP = (AARCH64, "sp") if ROOT else (X86_64, "rsp")
qemu = None
maps = None
out = open(os.environ["CFIPACK_BACKTRACES"], "w")


def put(*words):
    print(*words, file=out)


def command(text):
    gdb.execute(text, to_string=True)


def value(frame, name):
    return int(frame.read_register(name)) & 0xFFFFFFFFFFFFFFFF


def mappings():
    global maps
    with open("/proc/%d/maps" % (qemu.pid if qemu else gdb.selected_inferior().pid)) as file:
        now = file.read().splitlines()
    if now != maps:
        maps = now
        for line in guest(maps) if qemu else maps:
            put("map", line)


def guest(lines):
    """The program's part of qemu's mappings. qemu maps the program's files at the program's addresses, but not as code."""
    files = {os.path.realpath(file.filename): file.filename for file in gdb.objfiles() if file.filename}
    for line in lines:
        fields = line.split()
        if len(fields) == 6 and fields[5] in files:
            is_code = any(start <= int(fields[2], 16) < end for start, end in code(fields[5]))
            yield line.replace(fields[1], "r-xp" if is_code else "r--p", 1)


def code(name):
    """The ranges of the code in a file, by offset."""
    with open(name, "rb") as file:
        data = file.read()
    (first,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    for number in range(count):
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, first + number * size)
        if kind == 1 and flags & 1:
            yield offset & ~0xFFF, offset + length


def stack_ends(address):
    for line in maps:
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return start, end
    return address, address


def report():
    mappings()
    frame = gdb.newest_frame()
    put("stop %x" % frame.pc(), *("%x" % value(frame, name) for name in NAMES))
    frames = []
    while frame is not None:
        last = frame
        # A function that was inlined, or has left by a tail call, has no frame on the stack.
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            frames.append(frame)
        frame = frame.older()
    lines, top = [], value(frames[0], SP)
    start, limit = stack_ends(top)
    for frame, caller in zip(frames, frames[1:]):
        # The caller's stack pointer is the CFA.
        cfa = value(caller, SP)
        top = max(top, cfa)
        lines.append("frame %x %x" % (frame.pc(), cfa))
    lines.append("frame %x" % frames[-1].pc())
    lines.append("end " + gdb.frame_stop_reason_string(last.unwind_stop_reason()))
    start = max(start, value(frames[0], SP) - 256)
    memory = gdb.selected_inferior().read_memory(start, min(limit, top + 256) - start)
    put("stack %x" % start, bytes(memory).hex())
    put("\n".join(lines))


def run_on(name):
    """Runs to one of the next calls of a function. A program that never calls it ends."""
    command("tbreak " + name)
    command("ignore $bpnum %d" % random.randint(0, 10))
    command("continue")
    command("delete")


def run_to_start():
    """Runs to main, or to the entry of a program without symbols."""
    try:
        command("tbreak main")
    except gdb.error:
        entry = gdb.execute("info files", to_string=True).split("Entry point: ")[1].split()[0]
        command("tbreak *" + entry)
    command("continue")


def start():
    """Starts the program, which stops at its first instruction."""
    global qemu
    if not ROOT:
        command("starti")
        return
    # This CPU signs no return addresses. gdb would need to know the mask of the signatures, which qemu does not tell it.
    socket = out.name + ".socket"
    args = gdb.execute("show args", to_string=True).split('"', 1)[1].rsplit('"', 1)[0]
    program = [gdb.current_progspace().filename] + shlex.split(args)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    qemu = subprocess.Popen(["qemu-aarch64", "-cpu", "cortex-a72", "-L", ROOT, "-g", socket] + program, **quiet)
    command("set sysroot " + ROOT)
    for _ in range(100):
        if os.path.exists(socket):
            break
        time.sleep(0.1)
    command("target remote " + socket)
    os.remove(socket)


def alive():
    return gdb.selected_inferior().pid != 0


for setting in (
    "confirm off", "pagination off", "width 0", "debuginfod enabled off", "auto-load off", "startup-with-shell off",
    "breakpoint pending off", "backtrace past-main on", "backtrace past-entry on", "backtrace limit unlimited", "unwindonsignal on",
):
    try:
        command("set " + setting)
    except gdb.error:
        pass  # A gdb that has no such setting does not need it.
command("handle SIGUSR1 nostop noprint pass")
random.seed(os.environ["CFIPACK_STOPS_SEED"])
stops = int(os.environ["CFIPACK_STOPS"])
distance = int(os.environ["CFIPACK_STOPS_DISTANCE"])
functions = os.environ.get("CFIPACK_STOPS_AT", "").split()
# A few stops are in the dynamic loader, the others after the start of main.
try:
    start()
except gdb.error as error:
    print("cannot start:", error)
    command("quit")
put("started")
for number in range(stops):
    if number == stops // 8:
        run_to_start()
    if number > stops // 8 and functions and alive():
        run_on(random.choice(functions))
    if not alive():
        break
    report()
    command("stepi %d" % random.randint(1, distance))
out.close()
if qemu:
    qemu.kill()
