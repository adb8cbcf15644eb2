//! The errors of regions and of their forms.

use cfipack_cfi::write;
use cfipack_encoder::sframe::WriteError;
use cfipack_encoder::unwind_info;
use cfipack_format::{Address, Arch, Unsupported};

cfipack_format::errors! {
    /// Describes a function that does not fit a region, or a value that does not fit a form.
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[non_exhaustive]
    pub enum Error {
        /// A region reaches beyond the architecture's addresses.
        #[error("a region of {length:#x} bytes at {base} reaches beyond the last address")]
        Range {
            /// The start of the region.
            base: Address,
            /// Bytes of code.
            length: u64,
        },
        /// A function has no code, or reaches beyond its region.
        #[error("a function of {size:#x} bytes at +{offset:#x} is not in a region of {length:#x} bytes")]
        Outside {
            /// The start, in bytes from the region's start.
            offset: u64,
            /// The size, in bytes.
            size: u64,
            /// Bytes of the region.
            length: u64,
        },
        /// Two functions have PCs in common.
        #[error("the functions at +{offset:#x} and +{other:#x} overlap")]
        Overlap {
            /// The start of the refused function, in bytes from the region's start.
            offset: u64,
            /// The start of the other function, in bytes from the region's start.
            other: u64,
        },
        /// A name has a zero byte.
        #[error("the name has a zero byte at {at}")]
        Name {
            /// The offset in bytes.
            at: usize,
        },
        /// A directive has no meaning.
        #[error("{error}")]
        Directive(error: crate::Error),
        /// The form does not exist for the architecture.
        #[error("{form} is not defined for {arch}")]
        Arch {
            /// The architecture.
            arch: Arch,
            /// The form.
            form: &'static str,
        },
        /// Two things lie too far from each other for a field of 32 bits.
        #[error("{to} is too far from {from} for 32 bits")]
        Distance {
            /// The address that the field counts from.
            from: Address,
            /// The address that it refers to.
            to: Address,
        },
        /// A size or number does not fit its field.
        #[error("{what}: {value}, at most {most} fit")]
        TooLarge {
            /// A description of the value.
            what: &'static str,
            /// The size or number.
            value: u64,
            /// The largest allowed value.
            most: u64,
        },
        /// The code of a function has another size than the function.
        #[error("{given} bytes of code are given for a function of {needed}")]
        CodeLength {
            /// Bytes given.
            given: u64,
            /// Bytes needed.
            needed: u64,
        },
        /// No function has this number.
        #[error("the region has no function {index}")]
        NoFunction {
            /// The number.
            index: usize,
        },
        /// A region overlaps a registered region.
        #[error("the region at {base} overlaps that at {other}, which is registered")]
        Registered {
            /// The start of the region.
            base: Address,
            /// The start of the registered region.
            other: Address,
        },
        /// No registered region starts at this address.
        #[error("no registered region starts at {start}")]
        NotFound {
            /// The address.
            start: Address,
        },
        /// A record of call frame information cannot be written.
        #[error("{error}")]
        Cfi(error: write::Error),
        /// A record of call frame information cannot be read.
        #[error("{error}")]
        Record(error: cfipack_cfi::Error),
        /// The instructions of a function cannot be read, or an address that they refer to is missing.
        #[error("{unsupported}")]
        Instructions(unsupported: Unsupported),
        /// A `.sframe` table cannot be written.
        #[error("{error}")]
        Sframe(error: WriteError),
        /// A `__unwind_info` table cannot be written.
        #[error("{error}")]
        UnwindInfo(error: unwind_info::WriteError),
    }
}

impl From<write::Error> for Error {
    fn from(error: write::Error) -> Self {
        Self::Cfi(error)
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        Self::Sframe(error)
    }
}
