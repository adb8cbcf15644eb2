//! Reads statements of assembler text: compares them with mnemonics, and knows the bytes that directives make.

use std::collections::BTreeSet;

use cfipack_format::{Arch, Family};

/// Returns the names of the macros of a source, including macros of the C preprocessor.
pub fn macros(text: &[u8]) -> BTreeSet<&[u8]> {
    text.split(|byte| *byte == b'\n').filter_map(macro_name).collect()
}

/// Returns the name of the macro that a line defines.
fn macro_name(line: &[u8]) -> Option<&[u8]> {
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
/// It can in three cases. The first three letters agree. Or both are conditional jumps: a condition has several names,
/// for example `jnz` and `jne`. Or the assembler writes another instruction because of an operand's sign, for example
/// `sub` for `add`.
pub fn agrees(arch: Arch, statement: &[u8], mnemonic: &str) -> bool {
    let is_conditional = |name: &[u8]| {
        name.first().is_some_and(|first| first.eq_ignore_ascii_case(&b'j'))
            && !name.get(1).is_some_and(|second| second.eq_ignore_ascii_case(&b'm'))
    };
    let letters = mnemonic.len().min(3);
    let begins = |name: &[u8]| statement.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
    letters > 0
        && (begins(&mnemonic.as_bytes()[..letters])
            || is_conditional(statement) && is_conditional(mnemonic.as_bytes())
            || match arch.family() {
                Family::Aarch64 => {
                    SIGNED.iter().any(|(own, other)| begins(own) && mnemonic.starts_with(other))
                }
                Family::X86 | Family::S390x | Family::Riscv => false,
            })
}

/// AArch64 instructions in a text, and the instruction that the assembler encodes if the operand is negative or
/// inverted.
const SIGNED: [(&[u8], &str); 8] = [
    (b"ldr", "ldur"),
    (b"str", "stur"),
    (b"add", "sub"),
    (b"sub", "add"),
    (b"cmp", "cmn"),
    (b"cmn", "cmp"),
    (b"bic", "and"),
    (b"and", "bic"),
];
