//! Errors of an `__unwind_info` section.

use core::fmt;

use cfipack_format::{ImageOffset, SectionOffset};

/// A part of the section, for [`Error::OutOfBounds`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Part {
    /// The 28 bytes at the start.
    Header,
    /// The common encodings.
    CommonEncodings,
    /// The personalities.
    Personalities,
    /// The index of pages.
    Index,
    /// A slice of the LSDA index.
    LsdaIndex,
    /// A page's header.
    Page,
    /// A page's entries.
    Entries,
    /// A page's own encodings.
    LocalEncodings,
}

cfipack_format::errors! {
    /// The reason why an `__unwind_info` section cannot be read, with the place of the error.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[non_exhaustive]
    pub enum Error {
        /// A part does not lie inside the section.
        #[error("offset {offset}: {part} of {size} bytes in a section of {section}")]
        OutOfBounds {
            /// The part of the section.
            part: Part,
            /// The declared start.
            offset: SectionOffset,
            /// The declared length in bytes.
            size: u64,
            /// The number of bytes in the section.
            section: usize,
        },
        /// The version is not 1.
        #[error("offset 0x0: version {version}, not 1")]
        Version(version: u32),
        /// The index does not even have a sentinel.
        #[error("offset 0x18: an index of 0 entries")]
        NoIndex,
        /// The function of an index entry lies below the function of the entry before it.
        #[error("offset {offset}: index entry of function {function} out of order")]
        IndexUnsorted {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
        },
        /// An index entry other than the sentinel names no page.
        #[error("offset {offset}: page offset 0 before the index's end")]
        NoPage {
            /// The offset of the page field in the index entry.
            offset: SectionOffset,
        },
        /// A page overlaps an earlier page.
        #[error("offset {offset}: page at {page}, and the pages before it end at {end}")]
        PageOverlap {
            /// The offset of the page field in the index entry.
            offset: SectionOffset,
            /// The offset of the page.
            page: SectionOffset,
            /// The end of the earlier pages.
            end: SectionOffset,
        },
        /// A page is neither regular nor compressed.
        #[error("offset {offset}: page of kind {kind}")]
        PageKind {
            /// The offset of the page.
            offset: SectionOffset,
            /// The kind.
            kind: u32,
        },
        /// The function of a compressed entry lies beyond 32 bits.
        #[error("offset {offset}: entry {entry:#x} counted from {base} lies beyond 32 bits")]
        Function {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The entry as stored.
            entry: u32,
            /// The start of the page's first function.
            base: ImageOffset,
        },
        /// The function of an entry lies below the entry before it, or outside the range of its page.
        #[error("offset {offset}: entry of function {function} out of order")]
        EntryUnsorted {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
        },
        /// An entry of the last page starts after the sentinel, where no reader looks for entries.
        #[error(
            "offset {offset}: entry of function {function} is not before the sentinel {sentinel}, so no reader looks for it"
        )]
        AfterSentinel {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The sentinel's function.
            sentinel: ImageOffset,
        },
        /// A compressed entry names an encoding that is in neither the common nor the local palette.
        #[error("offset {offset}: encoding number {index} of {count}")]
        EncodingIndex {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The number of the encoding.
            index: u8,
            /// The number of encodings.
            count: u64,
        },
        /// The LSDA index of a page ends before it starts, or its length is not a multiple of an entry's.
        #[error("offset {offset}: LSDA index from {start:#x} to {end:#x}")]
        LsdaRange {
            /// The offset of the LSDA field in the index entry.
            offset: SectionOffset,
            /// Offset of its start.
            start: u32,
            /// Offset of its end.
            end: u32,
        },
        /// An encoding has the LSDA flag, but the LSDA index has no LSDA for the entry.
        #[error("offset {offset}: no LSDA for function {function}, whose encoding has one")]
        NoLsda {
            /// The offset of the page's part of the LSDA index.
            offset: SectionOffset,
            /// The start of the entry.
            function: ImageOffset,
        },
        /// An encoding names a personality that the section does not have.
        #[error("function {function}: personality number {number} of {count}")]
        Personality {
            /// The start of the entry.
            function: ImageOffset,
            /// The number of the personality, from 1.
            number: u8,
            /// The number of personalities in the section.
            count: usize,
        },
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "the header",
            Self::CommonEncodings => "the common encodings",
            Self::Personalities => "the personalities",
            Self::Index => "the index",
            Self::LsdaIndex => "the LSDA index",
            Self::Page => "a page",
            Self::Entries => "a page's entries",
            Self::LocalEncodings => "a page's encodings",
        })
    }
}
