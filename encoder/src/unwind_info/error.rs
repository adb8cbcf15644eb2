//! Errors and warnings of the writer.

use core::fmt;
use core::num::NonZeroU32;

use cfipack_format::Key;

/// A function that cannot be written as it was pushed. The table is still correct if the function has an FDE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The format has room for three personalities, and three other personalities are used more often. The
    /// function fell back to DWARF mode.
    FourthPersonality {
        /// The key of the function.
        function: Key,
        /// The function's personality.
        personality: NonZeroU32,
        /// The offset of the function's FDE, if you pushed it. Without it, the entry has DWARF mode and no offset.
        /// Readers can still unwind the function if `__eh_frame` has an FDE for it.
        fde: Option<NonZeroU32>,
    },
    /// The FDE's offset does not fit into the 24 bits that an encoding has for it. Readers have to search all of
    /// `__eh_frame`.
    FdeOutOfReach {
        /// The key of the function.
        function: Key,
        /// The offset of the FDE in `__eh_frame`.
        fde: NonZeroU32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FourthPersonality { function, personality, fde } => {
                write!(f, "function {function}: three personalities are used more than its own, ")?;
                write!(f, "number {personality}; ")?;
                match fde {
                    Some(fde) => write!(f, "its FDE at {fde:#x} takes over"),
                    None => write!(f, "no FDE is known to take over"),
                }
            }
            Self::FdeOutOfReach { function, fde } => {
                write!(f, "function {function}: its FDE at {fde:#x} is out of the table's reach; ")?;
                write!(f, "readers have to search for it")
            }
        }
    }
}

cfipack_format::errors! {
    /// The reason why a table was not written.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[non_exhaustive]
    pub enum WriteError {
        /// The table is too large for its own 32-bit offsets.
        #[error("__unwind_info of {size} bytes is over 4 GiB")]
        TooLarge {
            /// The size that it would have, in bytes.
            size: u64,
        },
        /// The output buffer has another length than [`Placed::len`](super::Placed::len).
        #[error("__unwind_info has {needed} bytes, the buffer for it {given}")]
        OutputLength {
            /// The length of the buffer in bytes.
            given: usize,
            /// The length of the table in bytes.
            needed: usize,
        },
    }
}
