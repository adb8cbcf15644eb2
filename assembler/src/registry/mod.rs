//! Keeps the rows of all generated code of a process. Threads and signal handlers can find rows while regions
//! come and go.
//!
//! A [`Registry`] holds the rows of each [`Region`] that you add, with a value of your choice. The value is
//! usually the region's registrations with libgcc, gdb and others, and they end when you drop it. A [`Reader`]
//! finds the row of a PC at any time and in any thread. You can call it even in a signal handler that
//! interrupts the registry's own thread. `cfipack_decoder::sframe::step` then computes the caller's registers
//! from the row.
//!
//! - You can add and remove regions in any order, and use their addresses again at once. Each change takes
//!   about as long as making the region's rows, however many regions are registered.
//! - A reader never waits. It finds a whole region or nothing of it, and nothing after the region was removed.
//! - Rows come from the call frame information, so they exist on every architecture, even if `.sframe` has no
//!   ABI for it.
//! - Memory is at most a few times the size of the registered rows. Memory of removed regions is given back at
//!   the latest when removed regions fill five sixths of it.
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
//! Memory is a slice of atomic words. Written words never change, except for the word with the place of the
//! root. A change appends the new rows and the few nodes of the search tree above them, and then stores the
//! root's place with release ordering. A reader loads the place with acquire ordering.
//!
//! When the memory is full, the registered regions are copied to new memory of up to three times their size. The
//! old memory is freed when no reader uses it. A reader holds memory for the length of a lookup by a read lock
//! that it only tries to take. The writer never locks current memory, and never waits for a reader: memory that
//! a reader does not release is written again, and the reader looks again if it goes on.
//!
//! # Modules
//! `arenas` replaces memory while readers use it, `tree` is the search tree, `block` encodes a region's rows as
//! words, `rows` interprets a function's CFI, and `reader` is the [`Reader`]. `sync` names the atomics and
//! locks.

mod arenas;
mod block;
#[cfg(all(test, loom))]
mod orders;
mod reader;
mod rows;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;
mod tree;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Unsupported};

use self::arenas::Arenas;
use self::block::Block;
use self::sync::{AtomicU64, Ordering};
use self::tree::{Tree, Writer};
use crate::cfi::Interpreter;
use crate::region::{Error, Region};

pub use reader::Reader;

/// Owns the rows of all registered regions, and a value of the host for each region.
///
/// A registry has a single writer. If several threads compile, put the registry in a lock; readers do not need
/// the lock. Dropping the registry removes all rows, and then drops the values.
///
/// # Forks
/// A child after `fork` has a copy of the registry, and may look up, add and remove as its parent does, if no
/// thread was changing the registry when the process forked. A host with several threads ensures this with
/// `pthread_atfork`, if the child uses the registry: take its lock before the fork, and release it after the
/// fork in the parent and in the child. Lookups in the child need no lock and no preparation.
///
/// No change waits for a reader. A lookup keeps its memory until a change that follows its end. If it never ends,
/// for example because its thread does not exist in the child, it keeps the memory until the registry and its
/// readers are dropped. All lookups together keep at most two memories of each
/// size that the registry has had, so at most four times the largest [`memory_size`](Self::memory_size), however
/// many lookups and forks there are.
#[derive(Debug)]
pub struct Registry<R = ()> {
    arch: Arch,
    arenas: Arc<Arenas>,
    /// The regions by their starts.
    regions: BTreeMap<u64, Registered<R>>,
    tree: Tree,
    /// The size of the memory in words, and the number of written words.
    capacity: usize,
    used: usize,
    /// Words of the blocks of all registered regions.
    live: usize,
    block: Block,
}

/// A region that is registered.
#[derive(Debug)]
struct Registered<R> {
    length: u64,
    /// The place of the region's rows, and their number of words.
    at: usize,
    words: usize,
    value: R,
}

impl<R> Registry<R> {
    /// Creates a registry without regions.
    pub fn new(arch: Arch) -> Self {
        Self {
            arch,
            arenas: Arc::new(Arenas::new()),
            regions: BTreeMap::new(),
            tree: Tree::default(),
            capacity: 0,
            used: 0,
            live: 0,
            block: Block::default(),
        }
    }

    /// Creates a reader for other threads and for signal handlers.
    pub fn reader(&self) -> Reader {
        Reader { arch: self.arch, arenas: Arc::clone(&self.arenas) }
    }

    /// Adds a region, and keeps `value` until the region is removed. The value is usually the state that the
    /// host has to undo then. Returns the functions of the region that have no rows, with the reasons. Stack
    /// walks end in these functions.
    ///
    /// Readers find the region when this function returns. Register the region elsewhere before you call this
    /// function, and publish the addresses of the code afterwards.
    ///
    /// # Errors
    /// After an error the registry is unchanged, and the value is dropped.
    /// - [`Error::Registered`]: a registered region has some of the code.
    /// - [`Error::Arch`]: the region is for another architecture.
    /// - [`Error::TooLarge`]: the region has more than 2 GiB of rows, or no memory is left for all regions.
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
        self.make_room(words)?;
        let Self { arenas, tree, block, used, .. } = self;
        let at = arenas.change(|memory| {
            let mut writer = Writer::new(memory, *used);
            let at = writer.put(block.words().iter().copied());
            tree.insert(&mut writer, base, at);
            *used = writer.next();
            at.to_usize()
        });
        self.live += words;
        self.regions.insert(base, Registered { length, at, words, value });
        Ok(omitted)
    }

    /// Removes the region that starts at `base`, and returns its value. No reader finds the region when this
    /// function returns. Drop the value to end other registrations, and then free the code. No thread may be in
    /// the code at that time, because an unwinder could not leave it.
    ///
    /// # Errors
    /// [`Error::NotFound`]: no registered region starts at `base`.
    pub fn remove(&mut self, base: Address) -> Result<R, Error> {
        let Registered { at, words, value, .. } =
            self.regions.remove(&base.0).ok_or(Error::NotFound { start: base })?;
        self.live -= words;
        // Copy the other regions if there is no room, or if the copy gives memory back.
        let (has_room, room) = (self.has_room(0), self.room_after(0));
        if (!has_room || room <= self.capacity / 4) && self.copy(room).is_some() {
            return Ok(value);
        }
        let Self { arenas, tree, used, .. } = self;
        arenas.change(|memory| {
            if has_room {
                let mut writer = Writer::new(memory, *used);
                tree.remove(&mut writer, base.0);
                *used = writer.next();
            } else {
                // The region stays in the tree until the next copy, which every other change makes first.
                block::end(&memory[at]);
            }
        });
        self.arenas.reclaim();
        Ok(value)
    }

    /// Returns the value of the region that starts at `base`.
    pub fn value_mut(&mut self, base: Address) -> Option<&mut R> {
        self.regions.get_mut(&base.0).map(|region| &mut region.value)
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Returns whether there are no regions.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Returns the regions in the order of their addresses: start, bytes of code, and value.
    pub fn regions(&self) -> impl ExactSizeIterator<Item = (Address, u64, &R)> {
        self.regions.iter().map(|(&base, region)| (Address(base), region.length, &region.value))
    }

    /// Returns the size in bytes of the memory that readers read. Older memory that a reader still uses is not
    /// counted.
    pub fn memory_size(&self) -> usize {
        self.capacity * size_of::<AtomicU64>()
    }

    /// Checks that no registered region overlaps a new region.
    fn check(&self, base: u64, length: u64) -> Result<(), Error> {
        // A region without code still shares its start with no other region.
        let end = base.saturating_add(length.max(1));
        if let Some((&other, region)) = self.regions.range(..end).next_back()
            && other.saturating_add(region.length.max(1)) > base
        {
            return Err(Error::Registered { base: Address(base), other: Address(other) });
        }
        Ok(())
    }

    /// Returns the number of words that the registered regions take after a copy.
    fn size(&self) -> usize {
        tree::START + self.live + Tree::packed(self.regions.len())
    }

    fn has_room(&self, words: usize) -> bool {
        self.used + words + self.tree.room() <= self.capacity
    }

    /// Returns the least size of new memory in words: one and a half times the words of all regions, of `words`
    /// more words and of a change of the tree.
    fn room_after(&self, words: usize) -> usize {
        let needed = self.size().saturating_add(words).saturating_add(Tree::default().room());
        needed.saturating_add(needed / 2)
    }

    /// Makes room for a region of `words` words.
    fn make_room(&mut self, words: usize) -> Result<(), Error> {
        if self.has_room(words) {
            self.arenas.reclaim();
            return Ok(());
        }
        let value = self.size().saturating_add(words).to_u64();
        let most = self.capacity.to_u64();
        self.copy(self.room_after(words)).ok_or(Error::TooLarge { what: "words of all rows", value, most })
    }

    /// Copies the registered regions to memory of `capacity` words or more, which becomes current. Changes nothing
    /// if there is no place for such memory.
    fn copy(&mut self, capacity: usize) -> Option<()> {
        let Self { arenas, regions, tree, used, .. } = self;
        let capacity = arenas.replace(capacity, |words| {
            let mut writer = Writer::new(words, tree::START);
            arenas.change(|old| {
                for region in regions.values_mut() {
                    let words = &old[region.at..region.at + region.words];
                    region.at = writer.put(words.iter().map(|word| word.load(Ordering::Relaxed))).to_usize();
                }
            });
            *tree = Tree::build(regions.iter().map(|(&base, region)| (base, region.at as u64)), &mut writer);
            *used = writer.next();
        })?;
        self.capacity = capacity;
        self.arenas.reclaim();
        Some(())
    }
}

impl<R> Drop for Registry<R> {
    fn drop(&mut self) {
        self.arenas.clear();
    }
}
