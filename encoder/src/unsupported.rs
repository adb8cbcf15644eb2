//! Why a function cannot be expressed.

use core::fmt;

use cfipack_format::{Address, Register};

/// A function that a table cannot express, and what stood in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// Start of the function.
    pub function: Address,
    /// First PC at which the CFI says what the table cannot.
    pub pc: Address,
    /// What it says.
    pub reason: Reason,
}

/// What stood in the way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// (placeholder)
    ReturnColumn(Register),
}

impl Reason {
    /// A short name that stays the same from run to run and function to function, for counting:
    /// words joined with `-`, such as `return-column`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReturnColumn(_) => "return-column",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReturnColumn(register) => write!(f, "the return address is in column {}", register.0),
        }
    }
}
