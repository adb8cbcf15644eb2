//! The state of a generated function: which directives it has, and which may follow.

/// The place of a register of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The rule of the CIE: unchanged, or restored by `restore`.
    Entry,
    /// A place on the stack.
    Stack,
    /// A place in another register, or found by an expression.
    Elsewhere,
    /// No value can be recovered.
    Undefined,
}

/// The register or address that the CFA is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// A register: its offset may be changed.
    Register,
    /// An expression: only a new definition may follow.
    Expression,
}

/// The state that `remember_state` remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// The base that the CFA is counted from.
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
