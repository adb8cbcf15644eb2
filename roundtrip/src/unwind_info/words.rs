//! Prints the meanings of compact entries.

use std::fmt;

use cfipack_format::{Arch, Register, RegisterName, Rule, RuleWords};

use super::Meaning;
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

/// Prints the CFI's answer, with the rules of registers other than the frame pointer and the return address.
#[derive(Clone, Copy, Debug)]
pub(super) struct CfiWords<'a>(pub(super) Arch, pub(super) &'a Answer, pub(super) &'a [(Register, Rule)]);

impl fmt::Display for CfiWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(arch, answer, registers) = *self;
        match answer {
            Answer::Nothing => f.write_str("no CFA"),
            Answer::StackPointer { rule, .. } => {
                write!(f, "the caller's stack pointer is {}", RuleWords(arch, *rule))
            }
            Answer::SignState(rule) => {
                write!(f, "the state of the return address's signature is {}", RuleWords(arch, *rule))
            }
            Answer::Row(row) | Answer::Plt { row, .. } | Answer::SignedWithPc { row, .. } => {
                write!(f, "{}", Words(arch, *row))?;
                if let Answer::SignedWithPc { at, .. } = answer {
                    write!(f, ", signed by the instruction at {at:#x} of the function")?;
                }
                registers.iter().try_for_each(|&(register, found)| rule(f, arch, register, found))
            }
        }
    }
}

fn rule(f: &mut fmt::Formatter<'_>, arch: Arch, register: Register, rule: Rule) -> fmt::Result {
    write!(f, ", {} {}", RegisterName(arch, register), RuleWords(arch, rule))
}
