//! The function index under construction.

use alloc::vec::Vec;
use core::mem;

use cfipack_format::pool::{Pool, Serial};
use cfipack_format::sframe::{FdeInfo, FdeType};

use crate::Reason;
use crate::sframe::rows::fres::{Block, Fres};
use crate::sframe::table::block::{Blocks, GROUP};
use crate::sframe::table::wide_attribute::WideAttribute;

/// An entry of the function index.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Entry {
    /// The start. For the first entry of a function, this is the function's key, which is its address if it has
    /// an address. A later entry of the function adds its offset to the key.
    pub(crate) start: u64,
    pub(crate) size: u32,
    /// The number of its [block](Blocks).
    pub(crate) block: u32,
}

impl Entry {
    /// Bytes of an entry.
    pub(crate) const SIZE: usize = 16;

    /// One past the last PC of the entry.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.size.into())
    }

    #[inline(always)]
    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let low = u128::from(self.size) << 64 | u128::from(self.block) << 96;
        (u128::from(self.start) | low).to_ne_bytes()
    }

    #[inline(always)]
    pub(crate) fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let all = u128::from_ne_bytes(*bytes);
        Self { start: all as u64, size: (all >> 64) as u32, block: (all >> 96) as u32 }
    }
}

/// A function without an entry. No row may answer for its PCs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Omitted {
    pub(crate) start: u64,
    pub(crate) size: u64,
}

impl Omitted {
    /// One past the last PC of the function.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

/// The entries, and the blocks that they refer to.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    pub(crate) list: Vec<Entry>,
    pub(crate) blocks: Blocks<'a>,
    /// The number of rows of all entries together.
    pub(crate) num_fres: u64,
    /// Functions that were refused, and functions that were not pushed.
    pub(crate) omitted: Vec<Omitted>,
    /// The numbers of entries that continue the function of the entry before, ascending.
    pub(crate) continued: Vec<usize>,
    /// The numbers of entries without rows, because their functions were refused, ascending.
    pub(crate) refused: Vec<usize>,
    /// For each entry of the finished index that continues a function: its start, and the start of the
    /// function. Sorted by the entries' starts.
    pub(crate) parts: Vec<(u64, u64)>,
    /// For each function that was merged into another function's FDE: the start of the other function, and
    /// the start of the merged function.
    pub(crate) merged: Vec<(u64, u64)>,
    /// True if a function could not be read. It may lie in any gap, so functions are not merged across gaps.
    pub(crate) unread: bool,
    /// `Some(true)` if the functions' keys are their addresses. `None` before the first function.
    pub(crate) have_addresses: Option<bool>,
    /// Shards that were absorbed. Their entries and blocks follow all that are here. Either this list or
    /// `pending` is empty.
    waiting: Vec<Entries<'a>>,
    /// The number of their blocks, and of the bytes of these.
    waiting_size: (usize, usize),
    /// True if there are such shards, or if blocks cannot be found before [`settle`](Self::settle).
    is_at_rest: bool,
    /// The last entries, which wait until their blocks are looked up together.
    pending: Vec<Pending>,
    pending_from: usize,
    /// Bytes of the blocks of `pending`.
    pending_len: usize,
}

/// An entry that waits until its block is looked up.
#[derive(Clone, Copy, Debug)]
struct Pending {
    entry: usize,
    block: Block,
    hash: u32,
    attribute: WideAttribute,
}

/// The longest block that waits for other blocks, in bytes.
const LONGEST_PENDING: usize = 1 << 12;

impl<'a> Entries<'a> {
    /// Creates an empty index over `blocks`.
    pub(crate) fn new(blocks: Blocks<'a>) -> Self {
        Self {
            list: Vec::new(),
            blocks,
            num_fres: 0,
            omitted: Vec::new(),
            refused: Vec::new(),
            continued: Vec::new(),
            parts: Vec::new(),
            merged: Vec::new(),
            unread: false,
            have_addresses: None,
            waiting: Vec::new(),
            waiting_size: (0, 0),
            is_at_rest: false,
            pending: Vec::new(),
            pending_from: 0,
            pending_len: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, start: u64, size: u32, block: u32, num_fres: u32) {
        self.num_fres += u64::from(num_fres);
        self.list.push(Entry { start, size, block });
    }

    /// Adds the functions of shards. If there is certainly room, they are added later, with other shards.
    pub(crate) fn absorb(&mut self, mut shards: Vec<Self>, pool: &dyn Pool) -> Result<(), Reason> {
        let rest = shards.iter_mut().map(|shard| {
            shard.rest();
            (shard.num_fres, mem::take(&mut shard.omitted), shard.unread, shard.have_addresses)
        });
        let rest: Vec<_> = rest.collect();
        let (mut blocks, mut len) = self.waiting_size;
        for shard in &shards {
            blocks += shard.blocks.len();
            len += shard.blocks.len_in_bytes();
        }
        if self.blocks.has_room(len) && u32::try_from(blocks + self.blocks.len()).is_ok() {
            self.waiting.extend(shards);
            self.waiting_size = (blocks, len);
            self.is_at_rest = true;
        } else {
            // There may be room, if the shards have blocks that are here already.
            self.settle();
            let combined = self.combine(shards, pool);
            self.blocks.rebuild_index();
            combined?;
        }
        for (num_fres, omitted, unread, have_addresses) in rest {
            self.num_fres += num_fres;
            self.omitted.extend(omitted);
            self.unread |= unread;
            self.have_addresses = self.have_addresses.or(have_addresses);
        }
        Ok(())
    }

    /// Adds the entries of absorbed shards. Call this before you add entries or read them.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.is_at_rest {
            self.settle_on(&Serial);
            self.blocks.rebuild_index();
        }
    }

    /// Frees memory that only adding entries needs.
    pub(crate) fn rest(&mut self) {
        self.list.shrink_to_fit();
        self.blocks.end_waiting();
        self.is_at_rest = true;
    }

    /// Adds the entries of absorbed shards on the threads of a pool. No blocks can be added afterwards.
    pub(crate) fn settle_on(&mut self, pool: &dyn Pool) {
        self.is_at_rest = false;
        if !self.waiting.is_empty() {
            let waiting = mem::take(&mut self.waiting);
            self.waiting_size = (0, 0);
            // `absorb` has found room for all of them.
            let settled = self.combine(waiting, pool);
            debug_assert_eq!(settled, Ok(()), "room for all shards");
        }
    }

    /// Returns the current end, for [`back_to`](Self::back_to).
    #[inline]
    pub(crate) fn mark(&self) -> (usize, u64) {
        (self.list.len(), self.num_fres)
    }

    /// Removes the entries that were added since `mark`. Their blocks stay, unused.
    #[cold]
    pub(crate) fn back_to(&mut self, mark: (usize, u64), fres: &mut Fres) {
        self.flush(fres);
        self.list.truncate(mark.0);
        self.num_fres = mark.1;
        let kept = self.continued.partition_point(|&number| number < mark.0);
        self.continued.truncate(kept);
    }

    /// Declares that the next entry continues the function of the last entry.
    pub(crate) fn go_on(&mut self) {
        self.continued.push(self.list.len());
    }

    /// Returns the start of each entry's function, in the order of the entries.
    pub(crate) fn function_starts(&self) -> impl Iterator<Item = u64> {
        let (mut continued, mut function) = (self.continued.iter().peekable(), 0);
        self.list.iter().enumerate().map(move |(number, entry)| {
            if continued.next_if_eq(&&number).is_none() {
                function = entry.start;
            }
            function
        })
    }

    /// Adds an entry for the FREs in `fres`.
    #[inline]
    pub(crate) fn add(
        &mut self,
        start: u64,
        size: u32,
        fres: &mut Fres,
        info: FdeInfo,
        fde_type: FdeType,
        rep_size: u8,
    ) -> Result<(), Reason> {
        self.flush(fres);
        let block = self.blocks.add(fres, info, fde_type, rep_size)?;
        self.push(start, size, block, fres.count());
        Ok(())
    }

    /// Adds an entry as [`add`](Self::add) does, but looks its block up later, [together](Blocks::touch) with
    /// other blocks. The FREs stay in `fres` until [`flush`](Self::flush).
    #[inline]
    pub(crate) fn add_later(
        &mut self,
        start: u64,
        size: u32,
        fres: &mut Fres,
        info: FdeInfo,
        fde_type: FdeType,
    ) -> Result<(), Reason> {
        let attribute = self.blocks.begin_block(fres, info, fde_type, 0);
        let block = fres.block(self.blocks.version());
        let all = self.pending_len + block.len;
        if self.blocks.index.is_none() || block.len > LONGEST_PENDING || !self.blocks.has_room(all) {
            return self.add(start, size, fres, info, fde_type, 0);
        }
        let hash = self.blocks.hash(fres.tail(block), block.len);
        if self.pending.is_empty() {
            self.pending_from = fres.base();
        }
        self.pending.push(Pending { entry: self.list.len(), block, hash, attribute });
        self.pending_len = all;
        self.push(start, size, u32::MAX, fres.count());
        fres.keep();
        if self.pending.len() == GROUP {
            self.flush(fres);
        }
        Ok(())
    }

    /// Looks up the blocks of the entries that wait. Call this before you add other blocks, and before you read
    /// the entries.
    #[inline]
    pub(crate) fn flush(&mut self, fres: &mut Fres) {
        if !self.pending.is_empty() {
            self.flush_pending(fres);
        }
    }

    #[inline(never)]
    fn flush_pending(&mut self, fres: &mut Fres) {
        self.blocks.touch(self.pending.iter().map(|pending| pending.hash));
        for Pending { entry, block, hash, attribute } in self.pending.drain(..) {
            let number = self.blocks.add_block(hash, fres.tail(block), block.len, attribute);
            self.list[entry].block = number;
        }
        self.pending_len = 0;
        fres.back_to(self.pending_from);
    }
}
