//! How far a pipe is read: it need not end, and a section that stands alone does not say how long it is but in
//! its own headers.

use cfipack_container::has_known_magic;
use cfipack_decoder::{sframe, unwind_info};

/// After more zeros than these nothing is looked for, which would take for ever in the hole of a sparse file.
const MAX_ZEROS: usize = sframe::Section::MAX_ZEROS;

/// What stands alone, by what it starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bare {
    /// A `.sframe` section.
    Sframe,
    /// An `__unwind_info` section.
    UnwindInfo,
}

impl Bare {
    /// A section that stands alone, by what it starts with.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xe2, 0xde, ..] | [0xde, 0xe2, ..] => Some(Self::Sframe),
            // The version, which no object starts with.
            [1, 0, 0, 0, ..] => Some(Self::UnwindInfo),
            _ => None,
        }
    }
}

/// Tells how many bytes of a pipe to read, by those that have been read.
#[derive(Debug, Default)]
pub struct Reach {
    /// Where the last table starts that has been found in a `.sframe` section.
    table: usize,
}

impl Reach {
    /// As many bytes as say what a file is.
    const HEAD: u64 = 8;

    /// How many bytes to read in all: no more than are at hand if they are enough, for a report on what is wrong
    /// with them too. `bytes` are those of the call before and more.
    pub fn wanted(&mut self, bytes: &[u8]) -> u64 {
        if (bytes.len() as u64) < Self::HEAD {
            return Self::HEAD;
        }
        match Bare::of(bytes) {
            Some(Bare::Sframe) => self.tables(bytes),
            Some(Bare::UnwindInfo) => {
                unwind_info::Section::claimed_len(bytes).saturating_add(MAX_ZEROS as u64)
            }
            None if has_known_magic(bytes) => u64::MAX,
            None => 0,
        }
    }

    /// The tables in a `.sframe` section, and as many bytes more as may hide another.
    fn tables(&mut self, bytes: &[u8]) -> u64 {
        loop {
            let claimed = sframe::Section::claimed_len(&bytes[self.table..]);
            let end = (self.table as u64).saturating_add(claimed);
            let wanted = end.saturating_add(MAX_ZEROS as u64);
            let Some(behind) = usize::try_from(end).ok().and_then(|end| bytes.get(end..)) else {
                return wanted;
            };
            let zeros = behind.iter().take(MAX_ZEROS + 1).take_while(|&&byte| byte == 0).count();
            let is_table = zeros <= MAX_ZEROS && Bare::of(&behind[zeros..]) == Some(Bare::Sframe);
            if !is_table {
                return wanted;
            }
            self.table = end as usize + zeros;
        }
    }
}
