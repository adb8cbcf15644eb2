//! The CFI's answer for a PC.

use cfipack_format::{Cfa, Row, Rule};

/// The answer of the CFI for a range of PCs.
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
    /// The caller's stack pointer is not the CFA. No `.sframe` row can represent this.
    StackPointer(Rule),
    /// AArch64: the state of the return address's signature follows from this rule. No `.sframe` row can represent
    /// this.
    SignState(Rule),
}

impl Answer {
    /// Returns the answer for a single PC. It is never [`Answer::Plt`].
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

    /// Returns the end of the PCs from `pc` on that have the same answer. The answer may be the same after it.
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
    /// Returns whether only one side is a signal frame, if both can represent signal frames.
    #[inline]
    pub(crate) fn signal_differs(self, other: Self) -> bool {
        self.signal.zip(other.signal).is_some_and(|(own, other)| own != other)
    }
}
