//! Faults of a table other than wrong answers for PCs.

use std::fmt;

use cfipack_decoder::sframe;
use cfipack_format::sframe::Abi;

/// A fault of a table, and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The index of the table, counted from 0.
    pub table: usize,
    /// The kind of fault, with its offset from the table's start.
    pub kind: FaultKind,
}

/// A kind of fault of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// Something that the format does not allow.
    Malformed(sframe::Error),
    /// A table for another architecture than what it is compared with.
    Abi(Abi),
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::Abi(abi) => write!(f, "offset 0x4: ABI {} is of another architecture", *abi as u8),
        }
    }
}
