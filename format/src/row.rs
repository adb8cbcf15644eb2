//! The row: the one currency between front ends, encoders, decoders and the verifier.

use crate::{Arch, FunctionOffset, Register};

/// A rule for the canonical frame address (CFA).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cfa {
    /// No rule: CFI that has not set one, or an outermost frame of `.sframe`, which needs none.
    Undefined,
    /// `register + offset`.
    Register {
        /// The value in the frame that is unwound.
        register: Register,
        /// Bytes.
        offset: i64,
    },
    /// The pointer stored at `register + offset`.
    Memory {
        /// The value in the frame that is unwound.
        register: Register,
        /// Bytes.
        offset: i64,
    },
    /// A rule that only a DWARF expression describes. CFI has it; no table does.
    Expression,
}

/// A rule for a register of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// The value that the register has in the frame that is unwound.
    SameValue,
    /// No value can be recovered; for the return address: there is no caller, the frame is outermost.
    Undefined,
    /// Stored at `CFA + offset` bytes.
    Cfa(i64),
    /// The value `CFA + offset` bytes. CFI has it (`DW_CFA_val_offset`); no table does.
    ValCfa(i64),
    /// `register + offset`.
    Register {
        /// The value in the frame that is unwound.
        register: Register,
        /// Bytes.
        offset: i64,
    },
    /// Stored at `register + offset`.
    Memory {
        /// The value in the frame that is unwound.
        register: Register,
        /// Bytes.
        offset: i64,
    },
    /// A rule that only a DWARF expression describes. CFI has it; no table does.
    Expression,
}

/// The rules for unwinding one frame, from `start` up to the next row's start or the function's end.
///
/// The caller's stack pointer is not part of a row: it is the CFA
/// (plus [`Arch::stack_pointer_from_cfa`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Row {
    /// First PC the row answers for, from the function's start.
    pub start: FunctionOffset,
    /// The canonical frame address.
    pub cfa: Cfa,
    /// The return address. [`Rule::SameValue`]: it is still in the link register.
    pub return_address: Rule,
    /// The caller's frame pointer.
    pub frame_pointer: Rule,
    /// AArch64: the return address is signed (`paciasp`) at this point.
    pub signed: bool,
}

impl Row {
    /// The row at a function's entry before any instruction of the CFI speaks: no CFA, and every
    /// register as it is, but for the return address of x86, which the call has pushed: its place
    /// below the CFA is part of the ABI, whether or not the CFI repeats it.
    pub const fn at_entry(arch: Arch) -> Self {
        let return_address = match arch.pushed_by_call() {
            0 => Rule::SameValue,
            size => Rule::Cfa(-size),
        };
        Self {
            start: FunctionOffset(0),
            cfa: Cfa::Undefined,
            return_address,
            frame_pointer: Rule::SameValue,
            signed: false,
        }
    }

    /// A register that the CFA or the return address is found by and that no row restores for a caller: any but
    /// the stack pointer and the frame pointer. Only the innermost frame, or one that a signal interrupted, has
    /// it; by this row no other can be unwound with a table alone. A return address that is still in its own
    /// register is not meant: functions have it there until they call.
    pub fn innermost_register(&self, arch: Arch) -> Option<Register> {
        if self.return_address == Rule::Undefined {
            return None;
        }
        let base = match self.cfa {
            Cfa::Register { register, .. } | Cfa::Memory { register, .. } => Some(register),
            Cfa::Undefined | Cfa::Expression => None,
        };
        let source = match self.return_address {
            Rule::Register { register, offset: 0 } if register == arch.return_address() => None,
            Rule::Register { register, .. } | Rule::Memory { register, .. } => Some(register),
            _ => None,
        };
        let is_restored = |register| register == arch.stack_pointer() || register == arch.frame_pointer();
        [base, source].into_iter().flatten().find(|&register| !is_restored(register))
    }

    /// Returns whether both rows unwind alike, wherever they start. Of two outermost frames nothing else
    /// matters, since no reader unwinds further.
    #[inline]
    pub fn unwinds_as(&self, other: &Self) -> bool {
        let outermost = self.return_address == Rule::Undefined;
        if outermost || other.return_address == Rule::Undefined {
            return outermost && other.return_address == Rule::Undefined;
        }
        self.cfa == other.cfa
            && self.return_address == other.return_address
            && self.frame_pointer == other.frame_pointer
            && self.signed == other.signed
    }

    /// Returns whether both rows count their CFA from the same register, and differ at most in their starts
    /// and in the CFA's offset.
    #[inline]
    pub fn differs_in_offset_only(&self, other: &Self) -> bool {
        let (Cfa::Register { register: one, .. }, Cfa::Register { register: two, .. }) =
            (self.cfa, other.cfa)
        else {
            return false;
        };
        one == two
            && self.return_address == other.return_address
            && self.frame_pointer == other.frame_pointer
            && self.signed == other.signed
    }
}
