//! The reason why a function cannot be evaluated.

use std::fmt;

/// The reason why a function, or the rest of it, cannot be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unevaluated {
    /// Several FDEs start where the function does, and they disagree.
    Disputed,
    /// gimli's error, for example for an unknown instruction, for more than 192 register rules, or for more than 30
    /// remembered states.
    Gimli(gimli::Error),
    /// The CIE is too long for the number of FDEs in the section. Its instructions would run again for each FDE.
    LongCie {
        /// The length of the CIE in bytes, without its length field.
        length: usize,
        /// The greatest length that is read: 8 times the section's size, divided by the number of its FDEs.
        longest: usize,
    },
}

impl From<gimli::Error> for Unevaluated {
    fn from(error: gimli::Error) -> Self {
        Self::Gimli(error)
    }
}

impl fmt::Display for Unevaluated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disputed => f.write_str("FDEs that start at one address disagree"),
            Self::Gimli(error) => write!(f, "gimli cannot evaluate the CFI: {error}"),
            Self::LongCie { length, longest } => {
                write!(f, "the CIE has {length} bytes, of which each FDE of the section may cost {longest}")
            }
        }
    }
}

impl std::error::Error for Unevaluated {}
