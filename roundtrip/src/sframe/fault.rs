//! Faults of a table other than wrong answers for PCs.

use std::fmt;

use cfipack_decoder::sframe;
use cfipack_format::sframe::Abi;

/// A fault of a table, and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Fault {
    /// The index of the table, counted from 0.
    pub table: usize,
    /// The kind of fault, with its offset from the table's start.
    #[cfg_attr(feature = "serde", serde(rename = "words", serialize_with = "words"))]
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub kind: FaultKind,
}

/// A kind of fault of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// Something that the format does not allow.
    Malformed(sframe::Error),
    /// The table is for another architecture than the CFI or the table that it is compared with.
    Abi(Abi),
}

#[cfg(feature = "serde")]
fn words<S: serde::Serializer>(kind: &FaultKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(kind)
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::Abi(abi) => write!(f, "offset 0x4: ABI {} is of another architecture", *abi as u8),
        }
    }
}
