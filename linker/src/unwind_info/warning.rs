//! [`Warning`]: parts of the input that the table cannot hold as given.

use core::fmt;

use cfipack_cfi as cfi;
use cfipack_format::{Key, LsdaKey, PersonalityKey, SectionOffset};

use super::Fde;

cfipack_format::messages! {
    /// Reports a part of the input that the table cannot hold as given. The table is still correct for every
    /// function in it.
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[non_exhaustive]
    pub enum Warning {
        /// The table names three other personalities instead of this function's.
        #[error("function {function}: three personalities are named before its own, {personality}; {}", Takeover(fde))]
        PersonalityOverflow {
            /// The function.
            function: Key,
            /// The personality.
            personality: PersonalityKey,
            /// The FDE that now describes the function. If it is `None`, the function has no unwind
            /// information in the table.
            fde: Option<Fde>,
        },
        /// A row is in DWARF mode and the function has no FDE. The function has no unwind information in the
        /// table.
        #[error("function {function}: in DWARF mode without FDE; no unwind information in the table")]
        NoFde {
            /// The function.
            function: Key,
        },
        /// The FDE that describes a function is not in the output. The function has no unwind information in
        /// the table.
        #[error("function {function}: {fde} has no place; no unwind information in the table")]
        FdeUnplaced {
            /// The function.
            function: Key,
            /// The FDE.
            fde: Fde,
        },
        /// The offset of the FDE does not fit the 24 bits of an encoding. Readers must search all of
        /// `__eh_frame` for it.
        #[error(
            "function {function}: {fde}, now at {offset:#x}, is out of the table's reach; readers have to search for it"
        )]
        FdeOutOfReach {
            /// The function.
            function: Key,
            /// The FDE.
            fde: Fde,
            /// The offset in the output's `__eh_frame`.
            offset: u32,
        },
        /// A function with unwind information has no address within 4 GiB of the Mach-O header: the table omits it.
        #[error("function {function}: omitted, as it has no address within 4 GiB of the header")]
        Unaddressed {
            /// The function.
            function: Key,
        },
        /// An LSDA has no address. The table describes its functions without an LSDA.
        #[error("LSDA {lsda}: omitted, as it has no address")]
        LsdaUnaddressed {
            /// The LSDA.
            lsda: LsdaKey,
        },
        /// The last bytes of an object's `__compact_unwind` are fewer than a row, and were not read.
        #[error("object {object}: __compact_unwind+{offset}: {bytes} bytes are no row")]
        IncompleteRow {
            /// The object's number, [`Input::object`](super::Input::object).
            object: u32,
            /// The offset of the first of these bytes.
            offset: SectionOffset,
            /// The number of bytes.
            bytes: usize,
        },
        /// A record of an object's `__eh_frame` cannot be read.
        #[error("object {object}: __eh_frame: {error}")]
        Cfi {
            /// The object's number, [`Input::object`](super::Input::object).
            object: u32,
            /// The error, with its offset.
            error: cfi::Error,
        },
    }
}

/// Prints what describes a function instead of its row.
struct Takeover(Option<Fde>);

impl fmt::Display for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(fde) => write!(f, "{fde} describes it"),
            None => write!(f, "it has no FDE, and no unwind information in the table"),
        }
    }
}

impl fmt::Display for Fde {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the FDE at {} of object {}", self.offset, self.object)
    }
}
