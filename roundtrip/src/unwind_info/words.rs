//! Prints the meanings of compact entries, and the rules that they break.

use std::fmt;

use cfipack_format::{Arch, Register, RegisterName, Rule, RuleWords};

use super::{Meaning, Violation};
use crate::cfi::Answer;
use crate::words::Words;

/// Prints a meaning, such as `CFA = rbp+16, return address at CFA-8, rbp at CFA-16, rbx at CFA-24`. Registers are in
/// ascending order.
#[derive(Clone, Copy, Debug)]
pub struct MeaningWords(pub Arch, pub Meaning);

impl fmt::Display for MeaningWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(arch, meaning) = *self;
        match meaning {
            Meaning::Nothing => f.write_str("no unwind information"),
            Meaning::Dwarf => f.write_str("the rows of the FDE"),
            Meaning::Malformed(error) => write!(f, "malformed: {error}"),
            Meaning::Row(row, saved) => {
                write!(f, "{}", Words(arch, row))?;
                let mut saved = saved.as_slice().to_vec();
                saved.sort_unstable();
                saved
                    .iter()
                    .try_for_each(|&(register, offset)| rule(f, arch, register, Rule::Cfa(offset.into())))
            }
        }
    }
}

/// The description of some PCs by the CFI, with the registers beside the frame pointer and the return address.
#[derive(Clone, Copy, Debug)]
pub(super) struct CfiWords<'a>(pub(super) Arch, pub(super) &'a Answer, pub(super) &'a [(Register, Rule)]);

impl fmt::Display for CfiWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(arch, answer, registers) = *self;
        match answer {
            Answer::Nothing => f.write_str("no CFA"),
            Answer::StackPointer(rule) => {
                write!(f, "the caller's stack pointer is {}", RuleWords(arch, *rule))
            }
            Answer::SignState(rule) => {
                write!(f, "the state of the return address's signature is {}", RuleWords(arch, *rule))
            }
            Answer::Row(row) | Answer::Plt { row, .. } => {
                write!(f, "{}", Words(arch, *row))?;
                registers.iter().try_for_each(|&(register, found)| rule(f, arch, register, found))
            }
        }
    }
}

fn rule(f: &mut fmt::Formatter<'_>, arch: Arch, register: Register, rule: Rule) -> fmt::Result {
    write!(f, ", {} {}", RegisterName(arch, register), RuleWords(arch, rule))
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Malformed(error) => error.fmt(f),
            Self::SentinelPage { offset, page } => {
                write!(f, "offset {offset}: the sentinel names a page at {page:#x}")
            }
            Self::SentinelBeyond { offset, function, end } => {
                write!(
                    f,
                    "offset {offset}: the sentinel {function} lies beyond the code, which ends at {end}"
                )
            }
            Self::IndexOrder { offset, function } => {
                write!(f, "offset {offset}: index entry of function {function} does not ascend")
            }
            Self::FirstEntry { offset, function, index } => {
                write!(f, "offset {offset}: the page's first entry is of function {function}, ")?;
                write!(f, "and the index has {index}")
            }
            Self::AfterSentinel { offset, function, sentinel } => {
                write!(
                    f,
                    "offset {offset}: the entry of function {function} is after the sentinel {sentinel}, "
                )?;
                f.write_str("where no reader looks for it")
            }
            Self::NoEntries { offset } => write!(f, "offset {offset}: a page without entries"),
            Self::Shared { offset, function } => {
                write!(f, "offset {offset}: the next entry is of function {function} too")
            }
            Self::NullShared { offset, function, is_last } => {
                write!(f, "offset {offset}: function {function} has ")?;
                f.write_str(match is_last {
                    true => "unwind information here, and none in its last entry, which readers find",
                    false => "no unwind information here; the next entry has it",
                })
            }
            Self::WithinFunction { offset, function, start } => {
                write!(
                    f,
                    "offset {offset}: the entry of function {function} starts within a function at {start}, "
                )?;
                f.write_str("which has no entry of its own")
            }
            Self::LsdaOrder { offset, function } => {
                write!(f, "offset {offset}: LSDA of function {function} does not ascend")
            }
            Self::LsdaPage { offset, function, page } => {
                write!(f, "offset {offset}: LSDA of function {function}, which is not in page {page}")
            }
            Self::LsdaOrphan { offset, function, is_dwarf } => {
                write!(f, "offset {offset}: LSDA of function {function}, ")?;
                f.write_str(match is_dwarf {
                    true => "whose FDE has it too",
                    false => "and no entry there has the LSDA flag",
                })
            }
            Self::PersonalitySlot { offset, slot } => {
                write!(f, "offset {offset}: personality slot {slot} is not among the loader's pointers")
            }
            Self::Encoding { offset, function, error } => {
                write!(f, "offset {offset}: function {function}: {error}")
            }
            Self::UnusedBits { offset, function, encoding } => {
                write!(f, "offset {offset}: function {function}: encoding {encoding} has unused bits set")
            }
            Self::FrameSlot { offset, function, encoding } => {
                write!(f, "offset {offset}: function {function}: encoding {encoding}: ")?;
                f.write_str("a register is not below the frame pointer")
            }
            Self::FramelessSize { offset, function, encoding } => {
                write!(f, "offset {offset}: function {function}: encoding {encoding}: ")?;
                f.write_str("the stack is too small for its registers")
            }
            Self::NoImmediate { offset, function, encoding } => {
                write!(f, "offset {offset}: function {function}: encoding {encoding}: ")?;
                write!(f, "no stack adjustment by an imm32 at byte {}", encoding.immediate_at())
            }
            Self::FramelessPairs { offset, function, encoding } => {
                write!(f, "offset {offset}: function {function}: encoding {encoding}: ")?;
                f.write_str("readers disagree on where a frameless function has its registers")
            }
            Self::DwarfRecord { offset, function, record } => {
                write!(f, "offset {offset}: function {function}: no record of __eh_frame at {record:#x}")
            }
            Self::DwarfFde { offset, function, record } => {
                write!(f, "offset {offset}: function {function}: no FDE in __eh_frame from {record:#x} on")
            }
            Self::RowPersonality { offset, function, encoding } => {
                write!(f, "offset {offset}: function {function}: encoding {encoding} of an object ")?;
                f.write_str("has a personality's number")
            }
            Self::RowLsda { offset, function, encoding } => {
                write!(f, "offset {offset}: function {function}: encoding {encoding} has ")?;
                f.write_str(if encoding.has_lsda() {
                    "an LSDA, and the row none"
                } else {
                    "no LSDA, and the row one"
                })
            }
            Self::RowOverlap { offset, function } => {
                write!(f, "offset {offset}: the row of function {function} starts within another")
            }
            Self::Uncovered { function } => write!(f, "function {function} has no entry"),
        }
    }
}
