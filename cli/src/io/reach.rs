//! Decides how many bytes of a pipe to read. A pipe may never end, but the headers of a bare section give its length.

use cfipack_container::has_known_magic;
use cfipack_decoder::{sframe, unwind_info};
use cfipack_format::widen::{ToU64, ToUsize};

/// The search for another table stops after more zeros than this, because a hole in a sparse file can have any size.
const MAX_ZEROS: usize = sframe::Section::MAX_ZEROS;

/// A bare section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bare {
    /// A `.sframe` section.
    Sframe,
    /// An `__unwind_info` section.
    UnwindInfo,
}

impl Bare {
    /// Recognises a bare section by its first bytes.
    pub fn recognise(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xe2, 0xde, ..] | [0xde, 0xe2, ..] => Some(Self::Sframe),
            // Version 1 of the format. No object starts with these bytes.
            [1, 0, 0, 0, ..] => Some(Self::UnwindInfo),
            _ => None,
        }
    }
}

/// Computes how many bytes of a pipe to read, from the bytes that are already read.
#[derive(Debug, Default)]
pub struct Reach {
    /// The offset of the last table found in a `.sframe` section.
    table: usize,
}

impl Reach {
    /// The number of bytes that identify a file's format.
    const HEAD: u64 = 8;

    /// Returns the total number of bytes to read. It is at most the length of `bytes` if they are enough, even if they
    /// are only enough to report an error.
    ///
    /// `bytes` starts with the bytes of the previous call.
    pub fn wanted(&mut self, bytes: &[u8]) -> u64 {
        if bytes.len().to_u64() < Self::HEAD {
            return Self::HEAD;
        }
        match Bare::recognise(bytes) {
            Some(Bare::Sframe) => self.tables(bytes),
            Some(Bare::UnwindInfo) => {
                unwind_info::Section::claimed_len(bytes).saturating_add(MAX_ZEROS.to_u64())
            }
            None if has_known_magic(bytes) => u64::MAX,
            None => 0,
        }
    }

    /// Returns the length of the tables in a `.sframe` section, with the zeros that may precede another table.
    fn tables(&mut self, bytes: &[u8]) -> u64 {
        loop {
            let claimed = sframe::Section::claimed_len(&bytes[self.table..]);
            let end = self.table.to_u64().saturating_add(claimed);
            let wanted = end.saturating_add(MAX_ZEROS.to_u64());
            let Some(after) = usize::try_from(end).ok().and_then(|end| bytes.get(end..)) else {
                return wanted;
            };
            let zeros = after.iter().take(MAX_ZEROS + 1).take_while(|&&byte| byte == 0).count();
            let is_table = zeros <= MAX_ZEROS && Bare::recognise(&after[zeros..]) == Some(Bare::Sframe);
            if !is_table {
                return wanted;
            }
            self.table = end.to_usize() + zeros;
        }
    }
}
