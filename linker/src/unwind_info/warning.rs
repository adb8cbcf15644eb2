//! Warnings: what the table cannot hold as it was given.

use core::fmt;

use cfipack_cfi as cfi;
use cfipack_format::{Key, LsdaKey, PersonalityKey, SectionOffset};

use super::Fde;

/// A thing that the table cannot hold as it was given. The table is right all the same: it is wrong about no
/// function.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// Three other personalities are named instead of this function's.
    PersonalityOverflow {
        /// The function.
        function: Key,
        /// The personality.
        personality: PersonalityKey,
        /// The FDE, which describes it now; none if it has none: in the table the function then has no unwind
        /// information.
        fde: Option<Fde>,
    },
    /// A row in DWARF mode without an FDE: in the table the function has no unwind information.
    NoFde {
        /// The function.
        function: Key,
    },
    /// The output has no place for the FDE that describes a function: in the table the function has no unwind
    /// information.
    FdeUnplaced {
        /// The function.
        function: Key,
        /// The FDE.
        fde: Fde,
    },
    /// The FDE lies beyond the 24 bits that an encoding has for it: readers must search all of `__eh_frame`.
    FdeOutOfReach {
        /// The function.
        function: Key,
        /// The FDE.
        fde: Fde,
        /// The offset in the output's `__eh_frame`.
        offset: u32,
    },
    /// A function with unwind information has no address: the table omits it.
    Unaddressed {
        /// The function.
        function: Key,
    },
    /// An LSDA has no address: the functions that have it are described without.
    LsdaUnaddressed {
        /// The LSDA.
        lsda: LsdaKey,
    },
    /// A rest of an object's `__compact_unwind` after its last row that is no row, and was not read.
    IncompleteRow {
        /// [`Input::object`](super::Input::object).
        object: u32,
        /// The offset of its start.
        offset: SectionOffset,
        /// The bytes.
        bytes: usize,
    },
    /// A record of an object's `__eh_frame` cannot be read.
    Cfi {
        /// [`Input::object`](super::Input::object).
        object: u32,
        /// The error, and its place.
        error: cfi::Error,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PersonalityOverflow { function, personality, fde } => {
                write!(
                    f,
                    "function {function}: three personalities are named before its own, {personality}; "
                )?;
                match fde {
                    Some(fde) => write!(f, "{fde} describes it"),
                    None => write!(f, "it has no FDE, and no unwind information in the table"),
                }
            }
            Self::NoFde { function } => {
                write!(
                    f,
                    "function {function}: in DWARF mode without FDE; no unwind information in the table"
                )
            }
            Self::FdeUnplaced { function, fde } => {
                write!(f, "function {function}: {fde} has no place; no unwind information in the table")
            }
            Self::FdeOutOfReach { function, fde, offset } => {
                write!(f, "function {function}: {fde}, now at {offset:#x}, is out of the table's reach; ")?;
                write!(f, "readers have to search for it")
            }
            Self::Unaddressed { function } => write!(f, "function {function}: omitted, as it has no address"),
            Self::LsdaUnaddressed { lsda } => write!(f, "LSDA {lsda}: omitted, as it has no address"),
            Self::IncompleteRow { object, offset, bytes } => {
                write!(f, "object {object}: __compact_unwind+{offset}: {bytes} bytes are no row")
            }
            Self::Cfi { object, error } => write!(f, "object {object}: __eh_frame: {error}"),
        }
    }
}

impl fmt::Display for Fde {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the FDE at {} of object {}", self.offset, self.object)
    }
}
