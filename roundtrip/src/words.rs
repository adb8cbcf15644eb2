//! Rows as text, with the architectures' register names.

use std::fmt;

use cfipack_format::{Arch, Cfa, CfaWords, RegisterName, Row, Rule, RuleWords};

use crate::cfi::Flags;
use crate::sframe::TableAnswer;

/// Prints a row, such as `CFA = rsp+16, return address at CFA-8, rbp at CFA-16`. Registers that keep their value are
/// omitted, but a return address is not.
#[derive(Clone, Copy, Debug)]
pub struct Words(pub Arch, pub Row);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(arch, row) = *self;
        if row.return_address == Rule::Undefined {
            return f.write_str("outermost frame");
        }
        match row.cfa {
            Cfa::Undefined => f.write_str("no CFA")?,
            Cfa::Register { .. } | Cfa::Memory { .. } => write!(f, "CFA = {}", CfaWords(arch, row.cfa))?,
            Cfa::Expression => f.write_str("CFA = a DWARF expression")?,
        }
        match row.return_address {
            Rule::SameValue => {
                write!(f, ", return address in {}", RegisterName(arch, arch.return_address()))?
            }
            rule => write!(f, ", return address {}", RuleWords(arch, rule))?,
        }
        if row.signed {
            f.write_str(" (signed)")?;
        }
        match row.frame_pointer {
            Rule::SameValue => Ok(()),
            rule => write!(f, ", {} {}", RegisterName(arch, arch.frame_pointer()), RuleWords(arch, rule)),
        }
    }
}

/// Prints an answer of a table, with the flags in which it differs from the other side.
pub(crate) struct Answered {
    pub arch: Arch,
    pub own: TableAnswer,
    pub other: TableAnswer,
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.own {
            TableAnswer::Nothing => f.write_str("no row"),
            TableAnswer::Malformed(error) => write!(f, "malformed: {error}"),
            TableAnswer::Row(row, own) => {
                write!(f, "{}", Words(self.arch, row))?;
                match self.other {
                    TableAnswer::Row(_, other) => flags_apart(f, own, other),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Prints the flags in which `own` differs from `other`.
pub(crate) fn flags_apart(f: &mut fmt::Formatter<'_>, own: Flags, other: Flags) -> fmt::Result {
    if own.signal_differs(other) {
        f.write_str(if own.signal == Some(true) { ", a signal frame" } else { ", no signal frame" })?;
    }
    if own.key_b != other.key_b {
        f.write_str(if own.key_b { ", key B" } else { ", key A" })?;
    }
    Ok(())
}
