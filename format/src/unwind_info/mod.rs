//! `__TEXT,__unwind_info` on disk: the page table that Apple's linkers make from compact unwind.
//!
//! A section has a [header](Header), up to 127 common encodings, up to 3 personalities, the [index](IndexEntry)
//! of second-level pages with a sentinel at its end, the [LSDA index](LsdaEntry), and the pages. A page is
//! [compressed](CompressedPage) or [regular](RegularPage), and holds [`CompressedEntry`] or [`RegularEntry`]
//! items. All writers use this order, but readers must not rely on it: every array is found by its offset.
//!
//! All fields are little endian. Offsets are from the section's start, except the two in a page,
//! which are from the page's start. Addresses are [image offsets](crate::ImageOffset): VM address
//! less the address of the Mach-O header.
//!
//! Source of the layouts: `mach-o/compact_unwind_encoding.h` of the macOS SDK.

mod header;
mod index;
mod page;

pub use header::{Header, MAX_PERSONALITIES, PERSONALITY_SIZE, VERSION};
pub use index::{IndexEntry, LsdaEntry};
pub use page::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, MAX_COMPRESSED_OFFSET, MAX_ENCODINGS, PageKind,
    RegularEntry, RegularPage,
};

/// Returns the little-endian word at byte `at` of a structure.
fn word(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// Returns the little-endian half word at byte `at` of a structure.
fn half(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

/// Returns the bytes of consecutive little-endian words.
fn bytes_of<const SIZE: usize>(words: &[u32]) -> [u8; SIZE] {
    let mut b = [0; SIZE];
    for (slot, word) in b.chunks_exact_mut(4).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    b
}
