//! The state of a generated function: which directives it has, and which may follow.

/// Where a register of the caller is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The rule of the CIE: unchanged, or restored by `restore`.
    Entry,
    /// On the stack.
    Stack,
    /// In another register, or found by an expression.
    Elsewhere,
    /// It cannot be recovered.
    Undefined,
}

/// What the CFA is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// A register: its offset may be changed.
    Register,
    /// An expression: only a new definition may follow.
    Expression,
}

/// What `remember_state` remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// What the CFA is counted from.
    pub base: Base,
    /// The CFA's offset.
    pub offset: i64,
    /// The frame pointer.
    pub frame_pointer: Place,
    /// The return address.
    pub return_address: Place,
}

/// The directives at the present location.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Here {
    /// Anything at all.
    pub anything: bool,
    /// Something about the CFA.
    pub cfa: bool,
}
