//! The FRE sub-section. In layout `small`, equal blocks are stored once.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::{hint, mem};

use cfipack_format::Endian;
use cfipack_format::pool::Pool;
use cfipack_format::sframe::{Attribute, FdeInfo, FdeType, MAX_SHARED_FRES, Version};
use cfipack_format::widen::ToUsize;

use crate::Reason;
use crate::sframe::options::Options;
use crate::sframe::rows::fres::Fres;
use crate::sframe::table::chunk::CHUNK;
use crate::sframe::table::hash_index::{HashIndex, hash};
use crate::sframe::table::pieces::{Pieces, Place};
use crate::sframe::table::wide_attribute::WideAttribute;

mod join;

/// The FRE sub-section under construction, as numbered blocks. A block holds a function's attribute and FREs.
/// Before version 3 it holds the FREs alone, because the attribute lies in the FDE.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<'a> {
    /// The blocks that are stored here. Room for the section's header and index comes first, and at least
    /// [`CHUNK`] bytes follow the last block.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the room for header and index.
    pub(crate) front: usize,
    /// The end of the last block in `bytes`.
    pub(crate) end: usize,
    /// The blocks that lie in other memories, and their places between the stored blocks.
    pieces: Pieces<'a>,
    /// The start of each block in the sub-section.
    pub(crate) starts: Vec<u32>,
    /// The attribute of each block, for its FDEs. Empty in version 3.
    attributes: Vec<WideAttribute>,
    /// Finds blocks by their bytes. `None` if blocks are not shared.
    pub(crate) index: Option<HashIndex>,
    seed: u64,
    version: Version,
    endian: Endian,
}

/// The number of functions that are encoded together. Their blocks are looked up together too. In a larger
/// batch, functions that repeat another function of the same batch would cost more than the batch saves.
pub(crate) const GROUP: usize = 16;

impl<'a> Blocks<'a> {
    pub(crate) fn new(options: Options, endian: Endian, seed: u64) -> Self {
        let index = (options.layout.shares_rows() && options.share).then(HashIndex::new);
        let version = options.version;
        let (bytes, starts, attributes) = (vec![0; CHUNK], Vec::new(), Vec::new());
        let pieces = Pieces::default();
        Self { bytes, front: 0, end: 0, pieces, starts, attributes, index, seed, version, endian }
    }

    /// The version of the format.
    #[inline(always)]
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The seed with which blocks are hashed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Allocates memory for `blocks` blocks of `bytes` bytes, after `front` bytes if there are no blocks yet.
    pub(crate) fn reserve(&mut self, front: usize, blocks: usize, bytes: usize) {
        if self.starts.is_empty() {
            // Zeroed memory is not touched before it is used.
            self.bytes = vec![0; front + bytes + CHUNK];
            (self.front, self.end) = (front, front);
        }
        self.starts.reserve(blocks);
        if let Some(index) = &mut self.index {
            index.reserve(blocks);
        }
    }

    /// Frees the memory for more blocks. No block can be added afterwards.
    pub(crate) fn end_growth(&mut self) {
        self.index = None;
        self.bytes.truncate(self.end + CHUNK);
        self.bytes.shrink_to_fit();
        self.starts.shrink_to_fit();
        self.attributes.shrink_to_fit();
        self.pieces.end_growth();
    }

    /// Returns the bytes of the sub-section after `front` bytes, which the caller will write.
    pub(crate) fn take_bytes(&mut self, front: usize, pool: &dyn Pool) -> Vec<u8> {
        if !self.pieces.is_empty() {
            let mut bytes = vec![0; front + self.len_in_bytes()];
            self.write(pool, &mut bytes[front..]);
            return bytes;
        }
        let mut bytes = mem::take(&mut self.bytes);
        let blocks = self.front..self.end;
        bytes.resize(bytes.len().max(front + blocks.len()), 0);
        bytes.copy_within(blocks.clone(), front);
        bytes.truncate(front + blocks.len());
        bytes
    }

    /// Finds the block with a function's FREs, or adds it. Returns the block's number.
    pub(crate) fn add(
        &mut self,
        fres: &mut Fres,
        info: FdeInfo,
        fde_type: FdeType,
        rep_size: u8,
    ) -> Result<u32, Reason> {
        let attribute = self.begin_block(fres, info, fde_type, rep_size);
        let block = fres.block(self.version);
        self.find_or_add(fres.tail(block), block.len, attribute).ok_or(Reason::SectionSize)
    }

    /// Finds the block that is equal to a block of `others`, or adds it. Returns its number in `self`.
    pub(crate) fn copy(&mut self, others: &Blocks<'_>, number: u32) -> Result<u32, Reason> {
        self.add_bytes(&[], others.block(number), others.attribute(number).unwrap_or_default())
    }

    /// Returns the attribute of a function's FREs. From version 3 on, also writes the attribute before the
    /// FREs.
    #[inline(always)]
    pub(crate) fn begin_block(
        &self,
        fres: &mut Fres,
        info: FdeInfo,
        fde_type: FdeType,
        rep_size: u8,
    ) -> WideAttribute {
        let num_fres = fres.count();
        let info = info.with_fre_type(fres.fre_type());
        if self.version.has_attributes() {
            let attribute = Attribute { num_fres: num_fres as u16, info, info2: fde_type as u8, rep_size };
            fres.set_attribute(&attribute.write(self.endian));
        }
        WideAttribute::new(num_fres, info, rep_size)
    }

    /// Returns whether blocks of this many bytes can be added.
    #[inline(always)]
    pub(crate) fn has_room(&self, len: usize) -> bool {
        u32::try_from(self.len_in_bytes() + len).is_ok()
    }

    /// Returns the end of the blocks before block `number`, as an offset in the sub-section.
    #[inline]
    pub(crate) fn end_of(&self, number: u32) -> usize {
        self.starts.get(number.to_usize()).map_or_else(|| self.len_in_bytes(), |&end| end.to_usize())
    }

    /// The offset of a block in the FRE sub-section.
    #[inline]
    pub(crate) fn offset(&self, number: u32) -> u32 {
        self.starts[number.to_usize()]
    }

    /// Returns the attribute for the FDEs of a block, before version 3.
    #[inline]
    pub(crate) fn attribute(&self, number: u32) -> Option<WideAttribute> {
        self.attributes.get(number.to_usize()).copied()
    }

    /// The number of blocks.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes of the sub-section.
    #[inline(always)]
    pub(crate) fn len_in_bytes(&self) -> usize {
        self.end - self.front + self.pieces.len()
    }

    /// The bytes of a block.
    #[inline]
    pub(crate) fn block(&self, number: u32) -> &[u8] {
        let start = self.offset(number).to_usize();
        let len = self.end_of(number + 1) - start;
        match self.pieces.place(start) {
            Place::Own(at) => &self.bytes[self.front + at..][..len],
            Place::Other(memory, from) => &self.pieces.memory(memory)[from..from + len],
        }
    }

    /// Returns whether the blocks at two offsets of the sub-section, `fres`, are the same.
    #[cold]
    pub(crate) fn are_same(&self, fres: &[u8], one: u32, two: u32) -> bool {
        let [one, two] = [one, two].map(|at| {
            let next = self.starts.partition_point(|&start| start <= at);
            let end = self.starts.get(next).map_or(fres.len(), |end| end.to_usize());
            (fres.get(at.to_usize()..end), self.attribute(next.saturating_sub(1) as u32))
        });
        one == two
    }

    /// Returns the hash of a block of `len` bytes. [`CHUNK`] more bytes must follow the block.
    #[inline(always)]
    pub(crate) fn hash(&self, bytes: &[u8], len: usize) -> u32 {
        if self.index.is_some() { hash(self.seed, bytes, len) } else { 0 }
    }

    /// Reads the memory that [`add_block`](Self::add_block) will read for blocks with these hashes. Most of
    /// this memory is not in the processor's caches, and loading it for all blocks together takes hardly longer
    /// than for a single block.
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = u32>) {
        let Some(index) = &self.index else { return };
        let mut first = [None; GROUP];
        for (first, hash) in first.iter_mut().zip(hashes) {
            *first = index.first(hash);
        }
        let mut sum = 0_u8;
        for number in first.into_iter().flatten() {
            if let Some([byte]) = self.known(self.starts[number.to_usize()].to_usize(), 1) {
                sum = sum.wrapping_add(*byte);
            }
        }
        hint::black_box(sum);
    }

    /// Finds a block that is stored already, or adds it. The block is the first `len` bytes of `bytes`, and
    /// [`CHUNK`] more bytes must follow it. Returns its number, or `None` if there is no room.
    #[inline]
    pub(crate) fn find_or_add(&mut self, bytes: &[u8], len: usize, attribute: WideAttribute) -> Option<u32> {
        let hash = self.hash(bytes, len);
        let known = self.find(hash, bytes, len, attribute);
        known.or_else(|| self.has_room(len).then(|| self.append_block(hash, bytes, len, attribute)))
    }

    /// Adds a block as [`find_or_add`](Self::find_or_add) does, if there is [room](Self::has_room).
    #[inline]
    pub(crate) fn add_block(&mut self, hash: u32, bytes: &[u8], len: usize, attribute: WideAttribute) -> u32 {
        match self.find(hash, bytes, len, attribute) {
            Some(number) => number,
            None => self.append_block(hash, bytes, len, attribute),
        }
    }

    /// Finds a block that is stored already. Returns its number.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, bytes: &[u8], len: usize, attribute: WideAttribute) -> Option<u32> {
        if len > MAX_SHARED_FRES {
            return None;
        }
        let (starts, attributes) = (&self.starts, &self.attributes);
        // The attribute has the number of rows, so the block is found if the bytes from its start on are equal.
        self.index.as_ref()?.find(hash, |number| {
            let start = starts[number.to_usize()].to_usize();
            self.known(start, len) == bytes.get(..len)
                && attributes.get(number.to_usize()).is_none_or(|&known| known == attribute)
        })
    }

    /// Returns `len` bytes from an offset in the sub-section on, if they lie side by side in memory.
    #[inline(always)]
    fn known(&self, start: usize, len: usize) -> Option<&[u8]> {
        if self.pieces.is_empty() {
            return self.bytes[self.front..].get(start..start + len);
        }
        match self.pieces.place(start) {
            Place::Own(at) => self.bytes[self.front..].get(at..at + len),
            Place::Other(memory, from) => self.pieces.memory(memory).get(from..from + len),
        }
    }

    /// Adds a block that is not stored yet.
    #[inline(always)]
    fn append_block(&mut self, hash: u32, bytes: &[u8], len: usize, attribute: WideAttribute) -> u32 {
        let at = self.end;
        let number = self.add_place(len, attribute);
        if let Some(index) = &mut self.index {
            index.push(hash);
        }
        self.make_room();
        // Copy a chunk at a time.
        let (from, _) = bytes.as_chunks::<CHUNK>();
        let (to, _) = self.bytes[at..].as_chunks_mut::<CHUNK>();
        for (to, from) in to.iter_mut().zip(from).take(len.div_ceil(CHUNK)) {
            *to = *from;
        }
        number
    }

    /// Adds the place of a block of `len` bytes, but neither its bytes nor its hash.
    #[inline(always)]
    pub(crate) fn add_place(&mut self, len: usize, attribute: WideAttribute) -> u32 {
        let number = self.starts.len() as u32;
        self.starts.push(self.len_in_bytes() as u32);
        self.end += len;
        if !self.version.has_attributes() {
            self.attributes.push(attribute);
        }
        number
    }

    /// Adds a block that lies in a caller's memory, but not its hash.
    #[inline]
    pub(crate) fn add_lent(
        &mut self,
        memory: &'a [u8],
        range: Range<usize>,
        attribute: WideAttribute,
    ) -> u32 {
        let at = self.len_in_bytes() as u32;
        let number = self.add_place(0, attribute);
        self.pieces.push(at, memory, range);
        number
    }

    /// Makes room for the bytes of all blocks.
    #[inline(always)]
    pub(crate) fn make_room(&mut self) {
        if self.bytes.len() < self.end + CHUNK {
            self.grow(self.end + CHUNK);
        }
    }

    /// Makes room for the bytes of one more block.
    pub(crate) fn make_room_for(&mut self, len: usize) {
        if self.bytes.len() < self.end + len + CHUNK {
            self.grow(self.end + len + CHUNK);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        // Copy small memory rarely, and leave little of large memory unused.
        let len = if len < 1 << 18 { 2 * len } else { len + len / 8 };
        self.bytes.reserve_exact(len - self.bytes.len());
        self.bytes.resize(len, 0);
    }
}

#[cfg(test)]
mod tests;
