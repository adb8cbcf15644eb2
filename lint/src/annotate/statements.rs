//! Reads statements of assembler text: compares them with mnemonics, and knows the bytes that directives make.

use std::collections::BTreeSet;

use cfipack_format::{Arch, Family};

use super::lines::SourceLine;

/// Returns the names of the macros of a source, including macros of the C preprocessor.
pub fn macros(text: &[u8]) -> BTreeSet<&[u8]> {
    text.split(|byte| *byte == b'\n').filter_map(macro_name).collect()
}

/// Returns the name of the macro that a line defines.
pub fn macro_name(line: &[u8]) -> Option<&[u8]> {
    let mut words = line.split(|byte| b" \t\r,(#".contains(byte)).filter(|word| !word.is_empty());
    let first = words.next()?;
    if first.eq_ignore_ascii_case(b".macro") || first == b"define" { words.next() } else { None }
}

/// Returns whether a statement is a directive.
pub fn is_directive(statement: &[u8]) -> bool {
    statement.starts_with(b".")
}

/// Returns the first word of a statement.
pub fn word(statement: &[u8]) -> &[u8] {
    statement.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default()
}

/// Returns the name of a macro that a statement may call. The preprocessor's macros have their arguments in parentheses.
pub fn called_macro(statement: &[u8]) -> &[u8] {
    let word = word(statement);
    word.split(|byte| *byte == b'(').next().unwrap_or(word)
}

/// Returns whether a statement calls a macro of some file. No name of an instruction has an underscore or a parenthesis.
pub fn is_macro(statement: &[u8]) -> bool {
    word(statement).iter().any(|byte| matches!(byte, b'_' | b'('))
}

/// Returns whether a directive makes padding.
pub fn is_alignment(statement: &[u8]) -> bool {
    matches!(word(statement), b".align" | b".balign" | b".p2align")
}

/// Returns whether a directive changes the section.
pub fn is_section(statement: &[u8]) -> bool {
    let sections: [&[u8]; 8] = [
        b".text",
        b".data",
        b".bss",
        b".section",
        b".subsection",
        b".pushsection",
        b".popsection",
        b".previous",
    ];
    sections.contains(&word(statement))
}

/// Returns whether a directive describes a symbol, and so makes no code.
pub fn is_of_symbols(statement: &[u8]) -> bool {
    matches!(
        word(statement),
        b".type" | b".size" | b".globl" | b".global" | b".weak" | b".local" | b".hidden"
    )
}

/// Returns whether a directive that [`data_len`] does not know can make bytes.
pub fn makes_bytes(statement: &[u8]) -> bool {
    let makers: [&[u8]; 16] = [
        b".ascii", b".asciz", b".string", b".hword", b".xword", b".octa", b".fill", b".skip", b".space",
        b".zero", b".org", b".nop", b".insn", b".inc", b".rept", b".irp",
    ];
    makers.iter().any(|maker| word(statement).starts_with(maker))
}

/// Returns whether a directive repeats or skips statements, or makes statements that are elsewhere.
pub fn makes_other_statements(statement: &[u8]) -> bool {
    let word = word(statement);
    let others: [&[u8]; 7] = [b".macro", b".endm", b".endr", b".include", b".if", b".else", b".endif"];
    others.iter().any(|other| word.starts_with(other))
}

/// What a line tells the C preprocessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preprocessor {
    If,
    Else,
    EndIf,
    /// A definition or an included file.
    Other,
}

/// Returns what a line tells the C preprocessor. Returns `None` for comments and for numbers of lines.
pub fn preprocessor(line: &[u8]) -> Option<Preprocessor> {
    let directive = line.trim_ascii_start().strip_prefix(b"#")?.trim_ascii_start();
    let directives: [(&[u8], Preprocessor); 6] = [
        (b"if", Preprocessor::If),
        (b"el", Preprocessor::Else),
        (b"endif", Preprocessor::EndIf),
        (b"define", Preprocessor::Other),
        (b"undef", Preprocessor::Other),
        (b"include", Preprocessor::Other),
    ];
    directives.into_iter().find(|(name, _)| directive.starts_with(name)).map(|(_, known)| known)
}

/// Returns how many bytes a data directive makes, for example 8 for `.long 1, 2`. People write instructions with these
/// directives. Returns `None` for all other statements.
pub fn data_len(arch: Arch, statement: &[u8]) -> Option<i64> {
    let width = match word(statement) {
        b".byte" => 1,
        b".2byte" | b".short" | b".value" => 2,
        b".4byte" | b".long" | b".int" | b".inst" => 4,
        b".8byte" | b".quad" => 8,
        b".word" => match arch {
            Arch::Amd64 | Arch::I386 | Arch::S390x => 2,
            Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::Riscv64 => 4,
        },
        _ => return None,
    };
    Some(statement.split(|byte| *byte == b',').map(|_| width).sum())
}

/// Returns whether a statement can be the instruction that the disassembler calls `mnemonic`.
///
/// It can in three cases. The first three letters agree. Or both are conditional branches: a condition has several names,
/// for example `jnz` and `jne`. Or the two names are [aliases](ALIASES).
pub fn agrees(arch: Arch, statement: &[u8], mnemonic: &str) -> bool {
    let own = word(statement);
    let is = |name: &str| own.eq_ignore_ascii_case(name.as_bytes());
    let letters = mnemonic.len().min(3);
    let begins = |name: &[u8]| own.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
    if letters == 0 || begins(&mnemonic.as_bytes()[..letters]) {
        return letters > 0;
    }
    let aliases = match arch.family() {
        Family::X86 => {
            let is_jump = |name: &[u8]| {
                name.len() > 1 && matches!(name, [b'j' | b'J', second, ..] if !matches!(second, b'm' | b'M'))
            };
            if is_jump(own) && is_jump(mnemonic.as_bytes()) {
                return true;
            }
            ALIASES_X86
        }
        Family::Aarch64 => {
            let is_branch = |name: &[u8]| {
                let condition = name.strip_prefix(b"b.").or_else(|| name.strip_prefix(b"b"));
                condition.is_some_and(|condition| CONDITIONS.contains(&condition))
            };
            if is_branch(mnemonic.as_bytes()) && is_branch(&own.to_ascii_lowercase()) {
                return true;
            }
            ALIASES
        }
        Family::S390x | Family::Riscv => return false,
    };
    aliases.iter().any(|names| names.contains(&mnemonic) && names.iter().any(|name| is(name)))
}

/// The names of AArch64's conditions.
const CONDITIONS: [&[u8]; 18] = [
    b"eq", b"ne", b"cs", b"hs", b"cc", b"lo", b"mi", b"pl", b"vs", b"vc", b"hi", b"ls", b"ge", b"lt", b"gt",
    b"le", b"al", b"nv",
];

/// Names of AArch64 for the same encodings. A disassembler prefers some of them by the operands: the zero register, the
/// stack pointer, the sign or the inverse of a constant. Source: the Arm Architecture Reference Manual, chapters C6 and C7.
const ALIASES: &[&[&str]] = &[
    &["add", "sub", "adds", "subs", "cmp", "cmn", "neg", "negs", "mov"],
    &[
        "and", "ands", "bic", "bics", "tst", "orr", "orn", "eor", "eon", "mov", "mvn", "movz", "movn",
        "movi", "not",
    ],
    &["adc", "adcs", "sbc", "sbcs", "ngc", "ngcs"],
    &["sbfm", "asr", "sbfx", "sbfiz", "sxtb", "sxth", "sxtw", "asrv"],
    &["ubfm", "lsr", "lsl", "ubfx", "ubfiz", "uxtb", "uxth", "uxtw", "lslv", "lsrv", "mov"],
    &["bfm", "bfi", "bfxil", "bfc"],
    &["extr", "ror", "rorv"],
    &["madd", "mul", "msub", "mneg"],
    &["smaddl", "smull", "smsubl", "smnegl"],
    &["umaddl", "umull", "umsubl", "umnegl"],
    &["csinc", "cset", "cinc", "csel"],
    &["csinv", "csetm", "cinv", "csel"],
    &["csneg", "cneg", "csel"],
    &[
        "ldr", "ldrb", "ldrh", "ldrsb", "ldrsh", "ldrsw", "ldur", "ldurb", "ldurh", "ldursb", "ldursh",
        "ldursw", "mov", "movz",
    ],
    &["str", "strb", "strh", "stur", "sturb", "sturh"],
    &["adr", "adrp", "nop", "add"],
    &["rev", "rev64"],
    &[
        "hint",
        "nop",
        "yield",
        "wfe",
        "wfi",
        "sev",
        "sevl",
        "esb",
        "psb",
        "tsb",
        "csdb",
        "bti",
        "dgh",
        "clearbhb",
        "xpaclri",
        "paciasp",
        "pacibsp",
        "autiasp",
        "autibsp",
        "paciaz",
        "pacibz",
        "autiaz",
        "autibz",
        "pacia1716",
        "pacib1716",
        "autia1716",
        "autib1716",
        "gcsb",
        "chkfeat",
    ],
    &["sys", "sysl", "ic", "dc", "at", "tlbi", "cfp", "dvp", "cpp"],
    &["dsb", "ssbb", "pssbb"],
    &["dup", "mov", "ins", "umov", "smov", "orr"],
    &["sshll", "sxtl", "sshll2", "sxtl2"],
    &["ushll", "uxtl", "ushll2", "uxtl2"],
    &["cmhi", "cmlo"],
    &["cmhs", "cmls"],
    &["cmge", "cmle"],
    &["cmgt", "cmlt"],
    &["fcmge", "fcmle"],
    &["fcmgt", "fcmlt"],
    &["ldadd", "stadd"],
    &["ldclr", "stclr"],
    &["ldeor", "steor"],
    &["ldset", "stset"],
];

/// Names of x86 for the same encodings, in Intel's and AT&T's syntax.
const ALIASES_X86: &[&[&str]] = &[
    &["sal", "salb", "salw", "sall", "salq", "shl"],
    &["cbw", "cbtw"],
    &["cwde", "cwtl"],
    &["cdqe", "cltq"],
    &["cwd", "cwtd"],
    &["cdq", "cltd"],
    &["cqo", "cqto"],
    &["wait", "fwait"],
    &["xchg", "nop"],
    &["call", "lcall", "callf"],
    &["jmp", "ljmp"],
    &["retf", "lret", "lretq"],
];

/// Returns the lines, from 0, whose text the assembler repeats (`.rept`, `.irp`, `.irpc`). Directives there would be
/// repeated too.
pub fn repeated_lines(text: &[u8], lines: &[SourceLine]) -> BTreeSet<usize> {
    let (mut depth, mut repeated) = (0_u32, BTreeSet::new());
    for (number, line) in lines.iter().enumerate() {
        if depth != 0 {
            repeated.insert(number);
        }
        for statement in &line.statements {
            match word(&text[statement.clone()]) {
                b".rept" | b".irp" | b".irpc" => depth += 1,
                b".endr" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    repeated
}
