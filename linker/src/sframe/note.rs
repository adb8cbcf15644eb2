//! The parts of an object that the output does not have, with the reasons.

use crate::cfi;
use crate::decoder::sframe::Error;
use crate::encoder::sframe::OmittedFunction;
use crate::format::{Arch, Reason, SectionOffset, Unsupported};

cfipack_format::messages! {
    /// Reports a part of an object that is not in the output.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Note {
        /// The object's `.sframe` is not used, from the table at this offset on. Its functions get rows from
        /// CFI, if the object has CFI and the options allow it.
        #[error("table at offset {table} is skipped: {reason}")]
        Skipped {
            /// The offset of the table in the section. Offsets in `reason` count from the start of the table.
            table: SectionOffset,
            /// The reason.
            reason: SkipReason,
        },
        /// A live function has no rows in the output.
        #[error("omitted: {unsupported}")]
        Omitted(unsupported: Unsupported),
        /// A record of `.eh_frame` cannot be read. After [`cfi::Error::Length`] the rest of the section is
        /// not read either.
        #[error(".eh_frame: {error}")]
        Unread(error: cfi::Error),
    }
}

cfipack_format::errors! {
    /// The reason why a table is not used.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum SkipReason {
        /// The table is damaged, or has an unknown version or unknown flags.
        #[error("{error}")]
        Malformed(error: Error),
        /// The table is for this architecture, and the output is for another architecture.
        #[error("it is for {arch}")]
        Architecture(arch: Arch),
        /// Rows of different functions overlap: the rows at this offset of the FRE sub-section start inside
        /// another function's rows.
        #[error("the rows at {offset:#x} of the FRE sub-section are part of another function's")]
        OverlappingRows(offset: u32),
    }
}

impl Note {
    /// Returns whether the object is damaged. Otherwise the object is in order, and the output cannot represent a
    /// function: a linker reports damage as a warning, and the other notes only if it is asked for details.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Skipped { .. } | Self::Unread(_) => true,
            Self::Omitted(unsupported) => {
                matches!(unsupported.reason, Reason::RowMalformed) || unsupported.reason.is_undefined()
            }
        }
    }
}

impl From<OmittedFunction> for Note {
    fn from(function: OmittedFunction) -> Self {
        match function {
            OmittedFunction::Unsupported(unsupported) => Self::Omitted(unsupported),
            OmittedFunction::Malformed(error) => Self::Unread(error),
        }
    }
}
