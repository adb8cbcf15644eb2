//! The CFI's answer for a PC.

use cfipack_format::{Cfa, Row, Rule};

/// The answer of the CFI for a range of PCs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// No CFA.
    Nothing,
    /// A row.
    Row(Row),
    /// The stubs of x86-64's PLT, as an expression of ld and lld describes them. Each stub has 16 bytes. `row` holds at
    /// its start, and from its byte `from` on with a CFA that is 8 bytes higher. `row.cfa` is a [`Cfa::Register`].
    Plt {
        /// The row at the start of a stub.
        row: Row,
        /// The first PC with the higher CFA, modulo 16.
        from: u64,
    },
    /// The caller's stack pointer is not the CFA. No `.sframe` row can represent this.
    StackPointer {
        /// The row without the rule for the stack pointer.
        row: Row,
        /// The rule.
        rule: Rule,
    },
    /// AArch64: the return address is signed with a PC (PAuth-LR). No `.sframe` row can represent this.
    SignedWithPc {
        /// The row.
        row: Row,
        /// The distance in bytes from the function's start to the instruction whose address is in the signature.
        at: u64,
    },
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

    /// Returns a PC up to which the answer at `pc` holds. It may hold longer.
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
    /// Whether the function is a signal frame. `None` for tables before version 3, which cannot represent this.
    pub signal: Option<bool>,
    /// True if return addresses are signed with key B.
    pub key_b: bool,
}

impl Flags {
    /// Returns whether exactly one side is a signal frame. Returns false if a side cannot represent signal frames.
    #[inline]
    pub(crate) fn signal_differs(self, other: Self) -> bool {
        self.signal.zip(other.signal).is_some_and(|(own, other)| own != other)
    }
}
