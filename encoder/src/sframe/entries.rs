//! The function index in the making.

use alloc::vec::Vec;

use cfipack_format::sframe::{FdeInfo, FdeType};

use super::block::Blocks;
use super::fres::Fres;
use crate::Reason;

/// One entry of the function index in the making.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The start that the CFI gives.
    pub(super) start: u64,
    pub(super) size: u32,
    /// The number of its [block](Blocks).
    pub(super) block: u32,
}

/// Entries and the blocks they refer to.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    pub(super) list: Vec<Entry>,
    pub(super) blocks: Blocks,
    /// Rows of all entries together.
    pub(super) num_fres: u64,
    /// Starts of functions that were refused, which nothing may be merged across; only kept for that.
    pub(super) refused: Vec<u64>,
    /// Functions that are part of another's FDE: where that starts and where they do.
    pub(super) merged: Vec<(u64, u64)>,
    /// A function could not be read: it may lie in any gap, and nothing may be merged across one.
    pub(super) unread: bool,
}

impl Entries {
    /// None, and the blocks that there are.
    pub(super) fn new(blocks: Blocks) -> Self {
        let (list, refused, merged) = (Vec::new(), Vec::new(), Vec::new());
        Self { list, blocks, num_fres: 0, refused, merged, unread: false }
    }

    #[inline]
    pub(super) fn push(&mut self, start: u64, size: u32, block: u32, num_fres: u32) {
        self.num_fres += u64::from(num_fres);
        self.list.push(Entry { start, size, block });
    }

    /// Adds several entries, with the rows of each.
    #[inline(always)]
    pub(super) fn extend(&mut self, entries: impl ExactSizeIterator<Item = (Entry, u32)>) {
        let num_fres = &mut self.num_fres;
        self.list.extend(entries.map(|(entry, fres)| {
            *num_fres += u64::from(fres);
            entry
        }));
    }

    /// How far the entries have come.
    #[inline]
    pub(super) fn mark(&self) -> (usize, u64) {
        (self.list.len(), self.num_fres)
    }

    /// Takes back what was added since `mark`; blocks stay, unused.
    pub(super) fn back_to(&mut self, mark: (usize, u64)) {
        self.list.truncate(mark.0);
        self.num_fres = mark.1;
    }

    /// Adds an entry for the FREs in `fres`.
    #[inline]
    pub(super) fn add(
        &mut self,
        start: u64,
        size: u32,
        fres: &mut Fres,
        info: FdeInfo,
        fde_type: FdeType,
        rep_size: u8,
    ) -> Result<(), Reason> {
        let block = self.blocks.add(fres, info, fde_type, rep_size)?;
        self.push(start, size, block, fres.count());
        Ok(())
    }
}
