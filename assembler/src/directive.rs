//! One directive.

use core::ops::Range;

use cfipack_format::Register;

/// A directive that stands at an offset of the code, with the operands that were given: offsets in bytes, from the CFA
/// or, where the name states it, from the CFA's register.
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
    /// `.cfi_register`: the first is saved in the second.
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
    /// `.cfi_escape`: bytes as they are.
    Escape {
        /// The place of the bytes in [`Directives::escaped`](crate::Directives::escaped).
        bytes: Range<u32>,
        /// True if each byte was an operand of its own, as gas wants it where it makes `.sframe`: the first operand and
        /// an expression's `sleb128()` offset may have other forms.
        is_plain: bool,
    },
    /// `.cfi_label`: a symbol at this place of the CFI.
    Label,
}

/// A directive and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Placed {
    /// The directive's number, counted from 0 in the order of calls, those included that stand for the whole function.
    pub number: usize,
    /// Bytes from the function's start.
    pub offset: u64,
    /// The CFA's offset from its register after the directive, in bytes, as far as directives give it; 0 before any does.
    /// `.cfi_adjust_cfa_offset` and `.cfi_rel_offset` mean it. Remembered and restored with the state.
    pub cfa_offset: i64,
    /// True if the code before it is not of a fixed size, though the offset may be that of the directive before: see
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
    /// `N`, a number that is none: its last byte is written. gas warns of it, and looks at the whole number where it
    /// makes `.sframe`.
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
