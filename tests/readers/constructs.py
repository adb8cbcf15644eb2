"""The constructs: valid call frame information in forms that its readers may not all know.

Each construct is the assembler source of a function `mid`, which a program (program.c, callers.s) calls, with CFI
that uses one form; what the right row is inside of mid's call of `leaf`; and a sentence for those who write CFI. No
construct is kept that ends or hangs a reader.
"""
import dataclasses

# The right row of the usual body at its call: DWARF columns, 3 is rbx and 16 the return address. "c-16" is saved at the CFA
# minus 16, "v-16" is the CFA minus 16, "r12" is in column 12, "s" the same value, "u" undefined, "exp" and "vexp" expressions.
USUAL = {"cfa": "rsp+64", 3: "c-16", 16: "c-8"}

BODY = """
mid: {0}
  push %rbx
.Lmid_1: {1}
  mov $48, %eax
  sub %rax, %rsp
.Lmid_2: {2}
  mov $0x5555, %ebx
  call leaf
here:
  add $48, %rsp
.Lmid_3: {3}
  pop %rbx
.Lmid_4: {4}
  ret
mid_end: {5}
"""

FRAME = """  .globl mid, mid_end, here, beside, beside_end
  .text
{body}
  .type mid, @function
  .size mid, mid_end - mid
{raw}
  .text
  nop
beside:
  .cfi_startproc
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call leaf
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
beside_end:
  .type beside, @function
  .size beside, beside_end - beside
  .section .note.GNU-stack, "", @progbits
"""


@dataclasses.dataclass
class Construct:
    name: str
    what: str                       # for the page
    instead: str                    # for the page: what to do instead
    source: str = ""
    row: dict = dataclasses.field(default_factory=lambda: dict(USUAL))
    ends: bool = False              # the walk has to end at mid
    after: str = ""                 # what is done to the linked program: a function of programs.py
    machine: str = "x86-64"
    options: tuple = ()             # of the link
    printed: bool = False           # only programs that print rows are run
    unseen: str = ""                # for the page: why `lint --readers` cannot see it in a file
    common: str = ""                # for the page: why `lint --readers` reports it only to those who name a reader


# Directives of the usual body, before each label of BODY.
PUSHED = ".cfi_def_cfa_offset 16\n .cfi_offset rbx, -16"
GROWN = ".cfi_def_cfa_offset 64"
USUAL_CFI = [".cfi_startproc", PUSHED, GROWN, ".cfi_def_cfa_offset 16", ".cfi_def_cfa_offset 8", ".cfi_endproc"]


def frame(body, raw=""):
    return FRAME.format(body=body, raw=raw)


def directives(**changes):
    """The usual body with directives, of which those at a place (p0 to p5) are others or, with a plus, more."""
    lines = list(USUAL_CFI)
    for place, text in changes.items():
        at = int(place[1:])
        lines[at] = lines[at] + "\n " + text[1:] if text.startswith("+") else text
    return frame(BODY.format(*lines))


SIZES = {0: ".quad {}", 2: ".short {}", 3: ".long {}", 4: ".quad {}", 9: ".uleb128 {}", 10: ".short {}", 11: ".long {}", 12: ".quad {}"}


def pointer(encoding, symbol):
    return SIZES[encoding & 15].format(f"{symbol} - ." if encoding & 0x70 == 0x10 else symbol)


# The instructions of the usual body.
INSTRUCTIONS = """ .byte 0x40 + (.Lmid_1 - mid), 0x0e, 16, 0x83, 2
 .byte 0x40 + (.Lmid_2 - .Lmid_1), 0x0e, 64
 .byte 0x40 + (.Lmid_3 - .Lmid_2), 0x0e, 16
 .byte 0x40 + (.Lmid_4 - .Lmid_3), 0x0e, 8"""
INITIAL = ".byte 0x0c, 7, 8, 0x90, 1"


def record(label, content):
    return f".L{label}: .long .L{label}_end - .L{label}_start\n.L{label}_start:\n{content}\n .balign 8\n.L{label}_end:\n"


def cie(label="cie", version=1, augmentation="zR", encoding=0x1b, data=None, instructions=INITIAL, data_factor=-8,
        column=16, extra=""):
    data = f".byte {encoding:#x}" if data is None else data
    sized = f" .uleb128 1f - 0f\n0: {data}\n1:" if augmentation.startswith("z") else ""
    sizes = " .byte 8, 0\n" if version == 4 else ""
    return record(label, f""" .long 0
 .byte {version}
 .asciz "{augmentation}"
{extra}{sizes} .uleb128 1
 .sleb128 {data_factor}
 .uleb128 {column}
{sized}
 {instructions}""")


def fde(label="fde", of="cie", start="mid", size="mid_end - mid", encoding=0x1b, data="", instructions=INSTRUCTIONS, augmented=True):
    sized = f" .uleb128 1f - 0f\n0: {data}\n1:" if augmented else ""
    return record(label, f""".L{label}_id: .long .L{label}_id - .L{of}
 {pointer(encoding, start)}
 {SIZES[encoding & 15].format(size)}
{sized}
{instructions}""")


def raw(*records, more="", plain=None):
    section = ' .section .eh_frame, "a", @progbits\n .balign 8\n' + "".join(records)
    return frame(plain or BODY.format("", "", "", "", "", ""), section + more)


def encoded(encoding, **others):
    return raw(cie(encoding=encoding, **others), fde(encoding=encoding))


PERSONALITY = """
  .text
personality: mov $8, %eax
  ret
  .data
  .balign 8
personality_pointer: .quad personality
  .section .gcc_except_table, "a"
lsda: .byte 0xff, 0xff, 1, 0
"""
NO_USE = "Nothing is lost without it: write the usual form."

# A row that the code of `mid` does not need, and that holds all the same: r13 is outer's stack pointer, r14 that minus 128.
KEEPS = """
mid: .cfi_startproc
  push %rbx
  .cfi_def_cfa_offset 16
  .cfi_offset rbx, -16
  push %{register}
  .cfi_def_cfa_offset 24
  mov $40, %eax
  sub %rax, %rsp
  .cfi_def_cfa_offset 64
  {rule}
  mov $0x5555, %ebx
  mov $0x6666, %{low}
  call leaf
here:
  add $40, %rsp
  pop %{register}
  .cfi_def_cfa_offset 16
  .cfi_same_value {register}
  pop %rbx
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
mid_end:
"""


def keeps(register, rule):
    return frame(KEEPS.format(register=register, low=register + "d", rule=rule))


# A trampoline as a kernel's for signals: leaf returns to its first byte, and its row is that of a caller's whole frame.
TRAMPOLINE = """
mid: {before}
  push %rbx
  {pushed}
  mov $48, %eax
  sub %rax, %rsp
  {grown}
  mov $0x5555, %ebx
  lea trampoline(%rip), %rax
  push %rax
  {moved}
  jmp leaf
  {end}
trampoline:
here:
  .cfi_startproc
  .cfi_signal_frame
  .cfi_def_cfa_offset 64
  .cfi_offset rbx, -16
  add $48, %rsp
  .cfi_def_cfa_offset 16
  pop %rbx
  .cfi_def_cfa_offset 8
  .cfi_same_value rbx
  ret
  .cfi_endproc
mid_end:
"""

AARCH64 = """  .globl mid, mid_end, here, beside, beside_end
{raw}
  .text
mid:
  {start}
  {sign}
  {signed}
  stp x29, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  bl leaf
here:
  ldp x29, x30, [sp], 16
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  {checked}
  ret
  .cfi_endproc
mid_end:
  .type mid, %function
  .size mid, . - mid
  nop
beside:
  .cfi_startproc
  stp x29, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  bl leaf
  ldp x29, x30, [sp], 16
  ret
  .cfi_endproc
beside_end:
  .type beside, %function
  .size beside, . - beside
  .section .note.GNU-stack, "", %progbits
"""


def aarch64(start="", sign="nop", signed=""):
    return AARCH64.format(raw="", start=".cfi_startproc\n " + start, sign=sign, signed=signed, checked=sign.replace("pac", "aut"))


def aarch64_raw(augmentation):
    """The usual form, with bytes in place of directives in `mid`."""
    section = ' .section .eh_frame, "a", %progbits\n' + cie(augmentation=augmentation, instructions=".byte 0x0c, 31, 0", column=30)
    section += fde(instructions=".byte 0x48, 0x0e, 16, 0x9d, 2, 0x9e, 1")
    mid, beside = AARCH64.format(raw=section, start="", sign="nop", signed="", checked="nop").split("\nbeside:")
    lines = [line for line in mid.split("\n") if not line.strip().startswith(".cfi_")]
    return "\n".join(lines) + "\nbeside:" + beside


ARM = {"cfa": "sp+16", 29: "c-16", 30: "c-8"}

BASE = "The others differ from it."

ALL = [
    # Records.
    Construct("usual", "the usual form: CIE version 1, `zR`, sdata4 pcrel", "", directives(), unseen=BASE),
    Construct("cie-version-3", "CIE of version 3", "Version 1 does the same where the return address has a column below 256.",
              encoded(0x1b, version=3)),
    Construct("cie-version-4", "CIE of version 4 (`--gdwarf-cie-version=4`)", "Write version 1 or 3 in `.eh_frame`; version 4 belongs into `.debug_frame`.",
              encoded(0x1b, version=4)),
    Construct("personality-and-lsda", "augmentation `zPLR`, all pointers pcrel", "",
              raw(cie(augmentation="zPLR", data=".byte 0x9b\n .long personality_pointer - .\n .byte 0x1b, 0x1b"), fde(data=".long lsda - ."), more=PERSONALITY)),
    Construct("personality-absptr", "augmentation `zPLR`, personality and LSDA absolute", "Write 0x9b and 0x1b, as compilers do.",
              raw(cie(augmentation="zPLR", data=".byte 0\n .quad personality\n .byte 0, 0x1b"), fde(data=".quad lsda"), more=PERSONALITY)),
    Construct("lsda-omitted", "`L` with the encoding 0xff", "Leave `L` out of the augmentation.",
              raw(cie(augmentation="zLR", data=".byte 0xff, 0x1b"), fde()), after="own_table"),
    Construct("signal-frame", "augmentation `zRS`, at a call", "", directives(p0="+.cfi_signal_frame")),
    Construct("no-augmentation", "empty augmentation, absolute pointers", "Write `zR`.",
              raw(cie(augmentation=""), fde(encoding=0, augmented=False))),
    Construct("augmentation-without-R", "augmentation `z`, no encoding", "Write `zR`.", raw(cie(augmentation="z", data=""), fde(encoding=0))),
    Construct("longer-augmentation-data", "augmentation data of an FDE longer than what is used", NO_USE, raw(cie(), fde(data=".byte 0, 0, 0, 0"))),
    Construct("pointers-absptr", "pointers absptr (0x00)", "", encoded(0x00)),
    Construct("pointers-udata4", "pointers udata4 (0x03)", "", encoded(0x03)),
    Construct("pointers-sdata8", "pointers sdata8 (0x0c)", "", encoded(0x0c)),
    Construct("pointers-pcrel-sdata8", "pointers pcrel sdata8 (0x1c)", "", encoded(0x1c)),
    Construct("terminator-before", "a terminator (four zeros) before the record, which then does not count by the LSB", "Only the last object of a link (`crtend.o`) may have one.",
              raw(" .long 0\n", cie(), fde()), after="own_table"),
    Construct("empty-fde-before", "an FDE of no bytes at the same address", "Leave FDEs of no code out.",
              raw(cie(), fde("empty", size="0", instructions=""), fde())),
    Construct("equal-fdes", "two FDEs for the same code, which agree", "", raw(cie(), fde(), fde("again")), options=("-fuse-ld=gold",)),
    Construct("data-factor-8", "data alignment factor of +8", NO_USE,
              raw(cie(data_factor=8, instructions=".byte 0x0c, 7, 8, 0x11, 16, 0x7f"), fde(instructions=INSTRUCTIONS.replace("0x83, 2", "0x11, 3, 0x7e")))),
    Construct("cie-without-instructions", "a CIE without instructions, all rules in the FDE", "",
              raw(cie(instructions=""), fde(instructions=" " + INITIAL + "\n" + INSTRUCTIONS))),
    Construct("section-renamed", "`.eh_frame` by another name", "Keep the name.", directives(), after="renamed"),
    # Instructions.
    Construct("restore-without-rule", "`restore` of a register without a rule in the CIE", "",
              directives(p2="+.cfi_offset r12, -24\n .cfi_restore r12"), {**USUAL, 12: "s"}, common="Compilers for AArch64 write it in each epilogue."),
    Construct("remembered-cfa", "`restore_state` after another CFA", "",
              directives(p2="+.cfi_remember_state\n nop\n .cfi_def_cfa r12, 24\n nop\n .cfi_restore_state"), common="Compilers write it after each early return."),
    Construct("remembered-five-deep", "five `remember_state` inside of each other", "Restore a state before the next is remembered.",
              directives(p2="+" + ".cfi_remember_state\n nop\n .cfi_adjust_cfa_offset 8\n nop\n " * 5 + ".cfi_restore_state\n " * 5)),
    Construct("undefined-return-address", "`undefined` return address, rbp is zero", "", directives(p0="+.cfi_undefined rip")
              .replace("mov $0x5555, %ebx\n", "mov $0x5555, %ebx\n mov %rbp, 40(%rsp)\n xor %ebp, %ebp\n").replace("here:", "here: mov 40(%rsp), %rbp"),
              {**USUAL, 16: "u"}, ends=True, common="Each program has it, in `_start`."),
    Construct("undefined-return-address-frame", "`undefined` return address, rbp has a frame", "Set rbp to zero, as `_start` does.", directives(p0="+.cfi_undefined rip"),
              {**USUAL, 16: "u"}, ends=True, unseen="What rbp has is in the code."),
    Construct("undefined-register", "`undefined` of a saved register", "", directives(p2="+.cfi_undefined r12"), {**USUAL, 12: "u"}),
    Construct("same-value", "`same_value`", "", directives(p2="+.cfi_same_value r12"), {**USUAL, 12: "s"}),
    Construct("val-offset", "`val_offset`, in a row before the call's", "Write `val_expression`, or save the register.",
              keeps("r14", ".cfi_val_offset r14, -128\n nop\n .cfi_offset r14, -24"), {**USUAL, 14: "c-24"}),
    Construct("val-expression", "`val_expression`", "", keeps("r13", ".cfi_escape 0x16, 13, 2, 0x23, 0"), {**USUAL, 13: "vexp"}),
    Construct("expression", "`expression` of a saved register", "", directives(p1=".cfi_def_cfa_offset 16\n .cfi_escape 0x10, 3, 2, 0x40, 0x1c"),
              {**USUAL, 3: "exp"}),
    Construct("cfa-expression", "`def_cfa_expression`", "", directives(p2=".cfi_escape 0x0f, 3, 0x77, 0xc0, 0", p3=".cfi_def_cfa rsp, 16"), {**USUAL, "cfa": "exp"}),
    Construct("cfa-from-memory", "`def_cfa_expression` that reads memory", "",
              directives(p2=".cfi_def_cfa_offset 64\n lea 64(%rsp), %rax\n mov %rax, 40(%rsp)\n .cfi_escape 0x0f, 3, 0x77, 40, 0x06", p3=".cfi_def_cfa rsp, 16"), {**USUAL, "cfa": "exp"}),
    Construct("return-address-val-expression", "`val_expression` of the return address", "Write `expression`, without the read.",
              directives(p2="+.cfi_escape 0x16, 16, 3, 0x38, 0x1c, 0x06"), {**USUAL, 16: "vexp"}),
    Construct("register", "`register`: saved in another register, which is saved too", "Save it in memory.",
              keeps("r12", ".cfi_offset r12, -24\n .cfi_register rbx, r12").replace("mov $0x6666, %r12d", "").replace("mov $40, %eax", "mov %rbx, %r12\n mov $40, %eax"),
              {**USUAL, 3: "r12", 12: "c-24"}),
    Construct("return-address-in-register", "return address in a saved register", "",
              keeps("r12", ".cfi_offset r12, -24\n .cfi_register rip, r12").replace("mov $0x6666, %r12d", "mov 64-8(%rsp), %r12\n movq $0, 64-8(%rsp)")
              .replace("here:", "here: mov %r12, 64-8(%rsp)\n .cfi_offset rip, -8"), {**USUAL, 12: "c-24", 16: "r12"}),
    Construct("args-size", "`GNU_args_size`", "", directives(p2="+.cfi_escape 0x2e, 16")),
    Construct("def-cfa-sf", "`def_cfa_sf`, `def_cfa_offset_sf`, `offset_extended_sf`", "",
              directives(p1=".cfi_escape 0x13, 0x7e, 0x11, 3, 2", p2=".cfi_escape 0x12, 7, 0x78", p3=".cfi_def_cfa_offset 16")),
    Construct("gnu-negative-offset", "`GNU_negative_offset_extended`", "Write `offset_extended_sf`.",
              raw(cie(data_factor=8, instructions=".byte 0x0c, 7, 8, 0x11, 16, 0x7f"), fde(instructions=INSTRUCTIONS.replace("0x83, 2", "0x2f, 3, 2")))),
    Construct("extended-forms", "`offset_extended`, `restore_extended`, `advance_loc4`", "",
              raw(cie(), fde(instructions=INSTRUCTIONS.replace("0x83, 2", "0x05, 3, 2").replace(".byte 0x40 + (.Lmid_2 - .Lmid_1), ", ".byte 4\n .long .Lmid_2 - .Lmid_1\n .byte ")
                                 .replace("0x0e, 8", "0x0e, 8, 0x06, 3")))),
    Construct("set-loc-absolute", "`set_loc` with absolute pointers", "Write `advance_loc`.",
              raw(cie(encoding=0), fde(encoding=0, instructions=INSTRUCTIONS.replace(".byte 0x40 + (.Lmid_2 - .Lmid_1), ", ".byte 1\n .quad .Lmid_2\n .byte ")))),
    Construct("vector-register", "`offset` of a vector register (xmm6)", "Leave it out if no caller keeps values there.", directives(p2="+.cfi_offset 23, -40"), {**USUAL, 23: "c-40"}),
    Construct("high-column", "a rule of a column above 66 (xmm20 is 71)", "Leave it out if no caller keeps values there.",
              directives(p2="+.cfi_offset 71, -40"), {**USUAL, 71: "c-40"}),
    Construct("signal-frame-first-byte", "the return address is the first byte of an `S` FDE, no FDE before", "Start the FDE a byte earlier, at a `nop`.",
              frame(TRAMPOLINE.format(before="", pushed="", grown="", moved="", end=""))),
    Construct("signal-frame-first-byte-after-code", "the return address is the first byte of an `S` FDE, an FDE ends there", "Start the FDE a byte earlier, at a `nop`.",
              frame(TRAMPOLINE.format(before=".cfi_startproc", pushed=PUSHED, grown=GROWN, moved=".cfi_def_cfa_offset 72", end=".cfi_endproc"))),
    Construct("first-byte-after-call", "the return address is the end of the FDE (a call that does not return)", "", 
              frame(BODY.format(*USUAL_CFI[:3], "", "", "").replace("here:\n", "here: .cfi_endproc\n")), unseen="Which call is last is in the code."),
    # AArch64, for programs that print rows.
    Construct("aarch64-usual", "AArch64: the usual form", "", aarch64(), ARM, machine="aarch64", unseen=BASE),
    Construct("aarch64-b-key", "AArch64: augmentation `zRB`", "", aarch64(".cfi_b_key_frame", "pacibsp", ".cfi_negate_ra_state"), ARM, machine="aarch64"),
    Construct("aarch64-mte", "AArch64: augmentation `zRG`", "", aarch64_raw("zRG"), ARM, machine="aarch64"),
    Construct("aarch64-negate-ra-state", "AArch64: 0x2d, `negate_ra_state`", "", aarch64("", "paciasp", ".cfi_negate_ra_state"), ARM, machine="aarch64"),
    Construct("aarch64-negate-ra-state-with-pc", "AArch64: 0x2c, `negate_ra_state_with_pc`", "", aarch64("", "paciasp", ".cfi_escape 0x2c"), ARM, machine="aarch64", printed=True),
    Construct("aarch64-set-ra-state", "AArch64: 0x2b, `set_ra_state`", "", aarch64("", "paciasp", ".cfi_escape 0x2b, 1, 0"), ARM, machine="aarch64", printed=True),
]
