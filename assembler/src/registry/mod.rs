//! One owner of all generated code, which threads and signal handlers read while regions come and go.
//!
//! A [`Registry`] has the rows of each [`Region`] that was added, and whatever the host keeps with it: its registrations
//! with libgcc, gdb and others, which end when they are dropped. A [`Reader`] finds the row of a PC at any time, in any
//! thread, also in a signal handler that interrupts the registry's own thread; the caller's registers follow from the
//! row by `cfipack_decoder::sframe::step`.
//!
//! - Regions are added and removed in any order, and their addresses used again at once. Each takes about as long as
//!   making the rows, whatever else is registered.
//! - A reader never waits. It finds all of a region or nothing of it, and after a region was removed nothing.
//! - Rows are those of the call frame information, on each architecture: also where `.sframe` has no ABI.
//! - Memory is at most a few times what is registered: what was removed is given back, at the latest when it is seven
//!   eighths of all.
//!
//! ```
//! use cfipack_assembler::Directives;
//! use cfipack_assembler::region::Region;
//! use cfipack_assembler::registry::Registry;
//! use cfipack_format::{Address, Arch, Cfa};
//!
//! let mut registry = Registry::new(Arch::Amd64);
//! let reader = registry.reader(); // for other threads, and for signal handlers
//!
//! let base = Address(0x7f00_0000_0000);
//! let mut region = Region::new(Arch::Amd64, base, 64)?;
//! let mut directives = Directives::new(Arch::Amd64, 16);
//! directives.at(4).def_cfa_offset(32);
//! region.push("function", 0, &directives)?;
//! // The registrations of the region, here none.
//! let omitted = registry.add(&region, ())?;
//! assert!(omitted.is_empty());
//!
//! let frame = reader.lookup(base.offset(8)).expect("it is registered");
//! assert_eq!(frame.row.cfa, Cfa::Register { register: Arch::Amd64.stack_pointer(), offset: 32 });
//! registry.remove(base)?;
//! assert!(reader.lookup(base.offset(8)).is_none());
//! # Ok::<(), cfipack_assembler::region::Error>(())
//! ```
//!
//! # How
//! Memory is a slice of atomic words, in which nothing that was written changes but the place of the root. A change
//! writes what it adds, and the few nodes of the search tree above it, after all there is, and stores the root's place
//! with release ordering; a reader loads it with acquire ordering. When the memory is full, what is registered is
//! copied to new memory, of twice its size, and the old memory is freed once no reader is in it. A reader
//! holds it, for the length of a lookup, by a read lock that it only tries to take and that the writer never wants of
//! current memory.

mod arenas;
mod block;
#[cfg(all(test, loom))]
mod orders;
mod reader;
mod rows;
mod sync;
#[cfg(test)]
mod tests;
mod tree;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Arch, Unsupported};

use self::arenas::{Arenas, Words};
use self::block::Block;
use self::sync::AtomicU64;
use self::tree::{Tree, Writer};
use crate::cfi::Interpreter;
use crate::region::{Error, Region};

pub use reader::Reader;

/// Words of the memory at least: 4 KiB.
const LEAST: usize = 512;

/// The rows of all registered regions, with a value of the host's for each: its registrations elsewhere.
///
/// There is one writer; a host whose threads all compile puts the registry in a lock, which readers do not need. Dropped, it
/// removes all rows, and then drops the values.
#[derive(Debug)]
pub struct Registry<R = ()> {
    arch: Arch,
    arenas: Arc<Arenas>,
    /// By their starts.
    regions: BTreeMap<u64, Registered<R>>,
    tree: Tree,
    /// Words of the memory, and how many of them are written.
    capacity: usize,
    used: usize,
    /// Words of the blocks of all that is registered.
    live: usize,
    /// True if older memory is not yet freed.
    has_older: bool,
    block: Block,
}

/// A region that is registered.
#[derive(Debug)]
struct Registered<R> {
    length: u64,
    /// The place of the region's rows, and how many words they have.
    at: usize,
    words: usize,
    value: R,
}

impl<R> Registry<R> {
    /// A registry without regions.
    pub fn new(arch: Arch) -> Self {
        Self {
            arch,
            arenas: Arc::new(Arenas::new(Words::default())),
            regions: BTreeMap::new(),
            tree: Tree::default(),
            capacity: 0,
            used: 0,
            live: 0,
            has_older: false,
            block: Block::default(),
        }
    }

    /// A reader, for other threads and for signal handlers.
    pub fn reader(&self) -> Reader {
        Reader { arch: self.arch, arenas: Arc::clone(&self.arenas) }
    }

    /// Adds a region, and keeps a value with it until it is removed: what the host has to undo then. The functions of the
    /// region that have no rows are returned with the reasons; walks end in them.
    ///
    /// Readers find the region from the return on: register it elsewhere before, and publish the addresses of the code
    /// after.
    ///
    /// # Errors
    /// The registry is unchanged, and the value dropped. [`Error::Registered`]: a registered region has some of the code.
    /// [`Error::Arch`]: it is for another architecture. [`Error::TooLarge`]: more than 2 GiB of rows.
    pub fn add(&mut self, region: &Region, value: R) -> Result<Vec<Unsupported>, Error> {
        if region.arch() != self.arch {
            return Err(Error::Arch { arch: region.arch(), form: "a registry of another architecture" });
        }
        let (base, length) = (region.base().0, region.code_len());
        self.check(base, length)?;
        let mut omitted = Vec::new();
        self.block.clear();
        let mut interpreter = Interpreter::new();
        for function in region.cfi_functions() {
            let offset = function.key.0 - base;
            omitted.extend(rows::push(&mut self.block, &mut interpreter, &function, offset).err());
        }
        let too_large = Error::TooLarge {
            what: "words of a region's rows",
            value: self.block.num_rows() as u64,
            most: i32::MAX as u64,
        };
        self.block.end(length).ok_or(too_large)?;
        let words = self.block.words().len();
        self.make_room(words);
        let Self { arenas, tree, block, used, .. } = self;
        let at = arenas.read(|memory| {
            let mut writer = Writer::new(memory, *used);
            let at = writer.put(block.words());
            tree.insert(&mut writer, base, at);
            *used = writer.next();
            at.to_usize()
        });
        self.live += words;
        self.regions.insert(base, Registered { length, at, words, value });
        Ok(omitted)
    }

    /// Removes the region that starts at `base`, and returns what was kept with it. No reader finds the region from the
    /// return on; drop the value, and with it other registrations, then free the code. No thread may be in the code: it
    /// would be unwound no further.
    ///
    /// # Errors
    /// [`Error::NotFound`]: no registered region starts there.
    pub fn remove(&mut self, base: Address) -> Result<R, Error> {
        let Registered { words, value, .. } =
            self.regions.remove(&base.0).ok_or(Error::NotFound { start: base })?;
        self.live -= words;
        // Copied without the region where that has to be, and where it gives memory back.
        if !self.has_room(0) || self.room_after(0) <= self.capacity / 4 {
            self.copy(self.room_after(0));
            return Ok(value);
        }
        let Self { arenas, tree, used, .. } = self;
        arenas.read(|memory| {
            let mut writer = Writer::new(memory, *used);
            tree.remove(&mut writer, base.0);
            *used = writer.next();
        });
        self.reclaim();
        Ok(value)
    }

    /// The value that is kept with the region that starts at `base`.
    pub fn value_mut(&mut self, base: Address) -> Option<&mut R> {
        self.regions.get_mut(&base.0).map(|region| &mut region.value)
    }

    /// The number of regions.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Returns whether there are no regions.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The regions in the order of their addresses: start, bytes of code, and what is kept with it.
    pub fn regions(&self) -> impl ExactSizeIterator<Item = (Address, u64, &R)> {
        self.regions.iter().map(|(&base, region)| (Address(base), region.length, &region.value))
    }

    /// Bytes of the memory that readers read, without older memory that a reader is still in.
    pub fn memory_size(&self) -> usize {
        self.capacity * size_of::<AtomicU64>()
    }

    /// Checks that no registered region has code of one.
    fn check(&self, base: u64, length: u64) -> Result<(), Error> {
        // One without code shares its start with no other.
        let end = base.saturating_add(length.max(1));
        if let Some((&other, region)) = self.regions.range(..end).next_back()
            && other.saturating_add(region.length.max(1)) > base
        {
            return Err(Error::Registered { base: Address(base), other: Address(other) });
        }
        Ok(())
    }

    /// Words that all takes if it is copied.
    fn size(&self) -> usize {
        tree::START + self.live + Tree::packed(self.regions.len())
    }

    fn has_room(&self, words: usize) -> bool {
        self.used + words + self.tree.room() <= self.capacity
    }

    /// Words of new memory in which there is room for as much again, and for so many words.
    fn room_after(&self, words: usize) -> usize {
        let needed = self.size().saturating_add(words).saturating_add(Tree::default().room());
        needed.saturating_mul(2).max(LEAST)
    }

    /// Makes room for a region of so many words.
    fn make_room(&mut self, words: usize) {
        match self.has_room(words) {
            true => self.reclaim(),
            false => self.copy(self.room_after(words)),
        }
    }

    /// Copies what is registered to new memory, which becomes current.
    fn copy(&mut self, capacity: usize) {
        let words: Words = (0..capacity).map(|_| AtomicU64::new(0)).collect();
        let Self { arenas, regions, tree, used, .. } = self;
        let mut writer = Writer::new(&words, tree::START);
        arenas.read(|old| {
            for region in regions.values_mut() {
                region.at = writer.copy(&old[region.at..region.at + region.words]);
            }
        });
        *tree = Tree::of(regions.iter().map(|(&base, region)| (base, region.at as u64)), &mut writer);
        *used = writer.next();
        self.capacity = capacity;
        self.arenas.replace(words);
        self.has_older = true;
        self.reclaim();
    }

    /// Frees older memory that no reader is in.
    fn reclaim(&mut self) {
        self.has_older = self.has_older && !self.arenas.reclaim();
    }
}

impl<R> Drop for Registry<R> {
    fn drop(&mut self) {
        self.arenas.replace(Words::default());
        self.arenas.reclaim();
    }
}
