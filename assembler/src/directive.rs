//! A directive and its operands.

use core::ops::Range;

use cfipack_format::Register;

/// A directive at an offset of the code, with its operands. Offsets are in bytes. Places of registers count
/// from the CFA, and in [`RelOffset`](Self::RelOffset) from the CFA's register.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Directive {
    /// `.cfi_def_cfa`: the CFA is a register plus bytes.
    DefCfa(Register, i64),
    /// `.cfi_def_cfa_offset`
    DefCfaOffset(i64),
    /// `.cfi_adjust_cfa_offset`: the offset grows by bytes.
    AdjustCfaOffset(i64),
    /// `.cfi_def_cfa_register`
    DefCfaRegister(Register),
    /// `.cfi_offset`: saved at the CFA plus bytes.
    Offset(Register, i64),
    /// `.cfi_rel_offset`: saved at the CFA's register plus bytes.
    RelOffset(Register, i64),
    /// `.cfi_val_offset`: the value is the CFA plus bytes.
    ValOffset(Register, i64),
    /// `.cfi_register`: the first register is saved in the second register.
    Register(Register, Register),
    /// `.cfi_restore`: back to the rule at the function's start.
    Restore(Register),
    /// `.cfi_undefined`
    Undefined(Register),
    /// `.cfi_same_value`
    SameValue(Register),
    /// `.cfi_remember_state`
    RememberState,
    /// `.cfi_restore_state`
    RestoreState,
    /// `.cfi_window_save`
    WindowSave,
    /// `.cfi_negate_ra_state`
    NegateRaState,
    /// `.cfi_negate_ra_state_with_pc`
    NegateRaStateWithPc,
    /// `.cfi_set_ra_state`: the state, and the distance in bytes to the instruction that signs.
    SetRaState(u64, i64),
    /// `.cfi_escape`: bytes as they are.
    Escape {
        /// The place of the bytes in [`Directives::escaped`](crate::Directives::escaped).
        bytes: Range<u32>,
        /// True if each byte was an operand of its own, as gas needs it to make `.sframe`. The first operand
        /// and the offset of an expression may have other forms.
        is_plain: bool,
    },
    /// `.cfi_label`: a symbol at this place of the CFI.
    Label,
}

/// A directive and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Placed {
    /// The directive's number in the order of calls, from 0. Directives for the whole function count too.
    pub number: usize,
    /// Bytes from the function's start.
    pub offset: u64,
    /// The CFA's offset from its register after the directive, in bytes. `.cfi_adjust_cfa_offset` and
    /// `.cfi_rel_offset` are relative to it. It starts with the architecture's offset at entry, or with 0
    /// after `.cfi_startproc simple`, and is remembered and restored with the state.
    pub cfa_offset: i64,
    /// True if the assembler did not know the size of the code before the directive at once. The offset may
    /// then be equal to the offset of the directive before. See
    /// [`Directives::at_aligned`](crate::Directives::at_aligned).
    pub new_fragment: bool,
    /// The directive.
    pub directive: Directive,
}

/// An operand of `.cfi_escape`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EscapeOperand {
    /// `N`: a byte.
    Byte(u8),
    /// `N`, a number that does not fit a byte. Its lowest byte is written. gas warns about it, and looks at
    /// the whole number when it makes `.sframe`.
    Truncated(i64),
    /// `data2(N)`
    Data2(u16),
    /// `data4(N)`
    Data4(u32),
    /// `data8(N)`
    Data8(u64),
    /// `uleb128(N)`
    Uleb128(u64),
    /// `sleb128(N)`
    Sleb128(i64),
}
