//! The judge's answer for a PC.

use cfipack_format::{Cfa, Row, Rule};

/// The answer of the CFI for some PCs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// No CFA.
    Nothing,
    /// A row.
    Row(Row),
    /// `row`, and from byte `from` of each 16-byte stub on with a CFA 8 bytes higher: the expression that
    /// ld and lld write for x86-64's PLT. `row.cfa` is a [`Cfa::Register`].
    Plt {
        /// The row at the start of a stub.
        row: Row,
        /// First PC modulo 16 with the higher CFA.
        from: u64,
    },
    /// The caller's stack pointer is not the CFA, which no `.sframe` row can represent.
    StackPointer(Rule),
    /// AArch64: the state of the return address's signature follows from this rule, which no `.sframe` row
    /// can represent.
    SignState(Rule),
}

impl Answer {
    /// The answer for one PC: never [`Answer::Plt`].
    #[inline]
    pub fn at(&self, pc: u64) -> Self {
        let Self::Plt { mut row, from } = *self else { return *self };
        if pc & 15 >= from
            && let Cfa::Register { offset, .. } = &mut row.cfa
        {
            *offset = offset.wrapping_add(8);
        }
        Self::Row(row)
    }

    /// The next PC to ask about: at least up to there the answer for a PC holds.
    #[inline]
    pub(crate) fn until(&self, pc: u64) -> u64 {
        match *self {
            Self::Plt { from, .. } if pc & 15 < from => (pc & !15).saturating_add(from),
            Self::Plt { .. } => (pc | 15).saturating_add(1),
            _ => u64::MAX,
        }
    }
}

/// The flags of all rows of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Flags {
    /// `true` if it is a signal frame. Tables before version 3 do not represent it.
    pub signal: Option<bool>,
    /// Return addresses are signed with key B.
    pub key_b: bool,
}

impl Flags {
    /// Returns whether only one of two is a signal frame, as far as both can represent.
    #[inline]
    pub(crate) fn signal_differs(self, other: Self) -> bool {
        self.signal.zip(other.signal).is_some_and(|(own, other)| own != other)
    }
}
