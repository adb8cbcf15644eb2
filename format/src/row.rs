//! The row: how to unwind from a PC. All front ends, encoders, decoders and the verifier exchange rows.

use crate::{Arch, FunctionOffset, Register};

/// The rule for the canonical frame address (CFA).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cfa {
    /// There is no rule: the CFI has not set a rule, or the frame is an outermost frame of `.sframe`, which
    /// needs none.
    Undefined,
    /// `register + offset`.
    Register {
        /// The register. Its value is the value in the frame that is unwound.
        register: Register,
        /// The offset in bytes.
        offset: i64,
    },
    /// The pointer stored at `register + offset`.
    Memory {
        /// The register. Its value is the value in the frame that is unwound.
        register: Register,
        /// The offset in bytes.
        offset: i64,
    },
    /// A rule that needs a DWARF expression. CFI can have it, and a table cannot.
    Expression,
}

/// The rule for a register of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// The register has the same value as in the frame that is unwound.
    SameValue,
    /// The value cannot be recovered. For the return address, this means that there is no caller: the frame is
    /// outermost.
    Undefined,
    /// Stored at `CFA + offset` bytes.
    Cfa(i64),
    /// The value is `CFA + offset` bytes. CFI can have it (`DW_CFA_val_offset`), and a table cannot.
    ValCfa(i64),
    /// The value is `register + offset`.
    Register {
        /// The register. Its value is the value in the frame that is unwound.
        register: Register,
        /// The offset in bytes.
        offset: i64,
    },
    /// Stored at `register + offset`.
    Memory {
        /// The register. Its value is the value in the frame that is unwound.
        register: Register,
        /// The offset in bytes.
        offset: i64,
    },
    /// A rule that needs a DWARF expression. CFI can have it, and a table cannot.
    Expression,
}

/// The rules that unwind a frame while its PC is between `start` and the next row's start, or the end of the
/// function.
///
/// For example, after `push rbp` of an x86-64 function, the row has the CFA `rsp + 16`, the return address at
/// CFA-8 and the frame pointer at CFA-16.
///
/// A row has no rule for the caller's stack pointer, because it is the CFA plus
/// [`Arch::stack_pointer_from_cfa`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Row {
    /// The first PC of the row, as an offset from the function's start.
    pub start: FunctionOffset,
    /// The rule for the canonical frame address.
    pub cfa: Cfa,
    /// The rule for the return address. [`Rule::SameValue`] means that it is still in the link register.
    pub return_address: Rule,
    /// The rule for the caller's frame pointer.
    pub frame_pointer: Rule,
    /// AArch64: true if the return address is signed (`paciasp`) at this PC.
    pub signed: bool,
}

impl Row {
    /// Returns the row at a function's entry before the first CFI instruction.
    ///
    /// It has no CFA, and every register still has the caller's value. On x86, the call has pushed the return
    /// address. The ABI defines its place below the CFA, so this row has it even if the CFI does not repeat it.
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

    /// Returns the register that makes this row work only in an innermost frame, or `None` if the row works in
    /// every frame.
    ///
    /// The CFA or the return address depends on this register, and a table does not restore it for a caller: a
    /// table restores only the stack pointer and the frame pointer. So only the innermost frame, or a frame
    /// that a signal interrupted, has its value. A return address that is still in the link register does not
    /// count, because every function has it there until its first call.
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
        let restored = [arch.stack_pointer(), arch.frame_pointer()];
        [base, source].into_iter().flatten().find(|register| !restored.contains(register))
    }

    /// Returns whether both rows unwind in the same way, wherever they start. Two outermost frames always
    /// unwind in the same way, because no reader unwinds further.
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

    /// Returns whether both rows count the CFA from the same register and differ at most in their starts and in
    /// the CFA's offset.
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
