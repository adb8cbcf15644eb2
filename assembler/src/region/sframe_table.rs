//! One `.sframe` table that grows in place, while other threads read it.
//!
//! The host lends memory for as many functions and bytes of rows as the table may get, and registers it once. Functions
//! are added in the order of their addresses, as a JIT fills its mapping; none that exists moves.
//!
//! ```text
//! header | index entries ... room | rows ... room
//! ```
//!
//! # What a reader sees
//! The memory is a slice of atomic words; a lookup, at whatever moment, answers as before a change or as after it.
//! - [`add`](SframeTable::add) stores rows and index entries where no reader looks yet, then the number of rows, and last,
//!   with release ordering, the number of functions. A reader that loads this number first, with acquire ordering or
//!   with an address dependency, reads whole entries, and those it had seen are still where they were.
//! - [`remove`](SframeTable::remove) stores 0 as the size of a function: no PC is in it. Its start stays, and with it
//!   the order of the index. Then it stores that there are no rows, and the number of rows. The entry and the rows
//!   are not used again, for a reader may have either still in hand; neither are the function's addresses, by this
//!   table.
//! - When room or addresses run out, make a table of what still exists, register it, and then remove the old one.
//!
//! ```
//! use core::sync::atomic::AtomicU32;
//!
//! use cfipack_assembler::Directives;
//! use cfipack_format::{Address, Arch};
//! use cfipack_assembler::region::Region;
//! use cfipack_assembler::region::sframe_table::{Capacity, SframeTable};
//!
//! let capacity = Capacity { functions: 64, row_bytes: 1024 };
//! let memory: Vec<AtomicU32> = (0..capacity.words()?).map(|_| AtomicU32::new(0)).collect();
//! let at = Address(0x7f00_0010_0000);
//! let mut table = SframeTable::new(&memory, at, Arch::Amd64, capacity)?;
//!
//! let mut region = Region::new(Arch::Amd64, Address(0x7f00_0000_0000), 4096)?;
//! let mut directives = Directives::new(Arch::Amd64, 16);
//! directives.at(4).def_cfa_offset(32);
//! region.push("one", 0, &directives)?;
//! region.push("two", 16, &directives)?;
//! let omitted = table.add(&region)?;
//! assert!(omitted.is_empty());
//! table.remove(Address(0x7f00_0000_0000), 16)?;
//! # Ok::<(), cfipack_assembler::region::Error>(())
//! ```

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use cfipack_encoder::sframe::Options;
use cfipack_format::sframe::{Abi, Fde, Flags, Header, Version};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Unsupported};

use super::{Error, Region, Registration};

/// The version of these tables, of which what follows has the offsets.
const VERSION: Version = Version::V3;
/// Words from the start of the table.
const NUM_FDES: usize = 2;
const NUM_FRES: usize = 3;
const INDEX: usize = Header::SIZE / 4;
const FDE: usize = VERSION.fde_size() / 4;
const SIZE_IN_FDE: usize = 2;
const ROWS_IN_FDE: usize = 3;
/// The attribute of a function without rows, which those have that were removed: 5 zeros, at the start of the rows.
const NO_ROWS: u32 = 8;

/// The capacity of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Capacity {
    /// Functions, those that were removed included.
    pub functions: u32,
    /// Bytes of rows: 5 for each function, and about 3 for each row. Rounded up to a multiple of 4.
    pub row_bytes: u32,
}

impl Capacity {
    /// Words of 32 bits that the table takes.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: the offsets in a table do not reach as far.
    pub fn words(self) -> Result<usize, Error> {
        let rows = u64::from(NO_ROWS / 4) + u64::from(self.row_bytes).div_ceil(4);
        let words = INDEX.to_u64() + FDE.to_u64() * u64::from(self.functions) + rows;
        let (value, most) = (words * 4, u32::MAX.into());
        if value > most {
            return Err(Error::TooLarge { what: "bytes of a table", value, most });
        }
        Ok(words.to_usize())
    }
}

/// A table that grows. There is one writer; the memory may have any number of readers.
#[derive(Debug)]
pub struct SframeTable<'m> {
    words: &'m [AtomicU32],
    address: Address,
    arch: Arch,
    capacity: Capacity,
    functions: u32,
    fres: u32,
    /// Bytes of rows, a multiple of 4.
    row_bytes: u32,
    /// The end of the last function that was added.
    end: Address,
}

impl<'m> SframeTable<'m> {
    /// An empty table in `memory`, which lies at `address`. It may be registered at once.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: `memory` is too small for the capacity. [`Error::Misaligned`]: `address` is no multiple of 4.
    /// [`Error::Arch`]: the format has no ABI for the architecture.
    pub fn new(
        memory: &'m [AtomicU32],
        address: Address,
        arch: Arch,
        capacity: Capacity,
    ) -> Result<Self, Error> {
        let abi = Abi::of(arch).ok_or(Error::Arch { arch, form: ".sframe" })?;
        if !address.0.is_multiple_of(4) {
            return Err(Error::Misaligned { address, alignment: 4 });
        }
        let needed = capacity.words()?;
        let words = memory.get(..needed).ok_or(Error::TooLarge {
            what: "words of a table",
            value: needed.to_u64(),
            most: memory.len().to_u64(),
        })?;
        let header = Header {
            version: VERSION as u8,
            flags: Flags::FDE_SORTED | Flags::START_PCREL,
            abi: abi as u8,
            fixed_fp_offset: 0,
            fixed_ra_offset: abi.fixed_ra_offset(),
            auxhdr_len: 0,
            num_fdes: 0,
            num_fres: 0,
            fre_len: NO_ROWS + capacity.row_bytes.next_multiple_of(4),
            fde_off: 0,
            fre_off: (4 * FDE) as u32 * capacity.functions,
        };
        let (functions, fres, row_bytes, end) = (0, 0, NO_ROWS, Address(0));
        let table = Self { words, address, arch, capacity, functions, fres, row_bytes, end };
        table.store(0, &header.write(arch.endian()));
        table.store(table.rows_at(), &[0; NO_ROWS as usize]);
        Ok(table)
    }

    /// Adds the functions of a region, which lie after all that the table has. Returns those that the table cannot
    /// represent; unwinding ends in them.
    ///
    /// # Errors
    /// [`Error::NotAscending`], [`Error::TooLarge`] (no room is left), [`Error::Arch`]: the table is unchanged.
    pub fn add(&mut self, region: &Region) -> Result<Vec<Unsupported>, Error> {
        if region.arch() != self.arch {
            return Err(Error::Arch { arch: region.arch(), form: "a table of another architecture" });
        }
        let mut end = self.end;
        if let (Some(first), Some(last)) = (region.functions().next(), region.functions().next_back()) {
            if first.1 < end {
                return Err(Error::NotAscending { start: first.1, end });
            }
            end = Address(last.1.0 + last.2);
        }
        // A table of its own, of which the entries and the rows are taken over.
        let sframe = region.sframe(Options::default().with_version(VERSION))?;
        let mut bytes = vec![0; sframe.len()];
        let index_at = Address(self.address.0.wrapping_add(self.index_of(self.functions).to_u64() * 4));
        // The index follows a header at the same distance, so that the starts, which count from their fields, hold.
        sframe.write(&mut bytes, index_at.offset(-(Header::SIZE as i64)))?;
        let endian = self.arch.endian();
        let Some((header, rest)) = bytes.split_first_chunk_mut() else { return Ok(Vec::new()) };
        let header = Header::read(header, endian);
        let (index, rows) = rest.split_at_mut(header.fre_off.to_usize());
        let has_room = |what, value: u64, most: u32| match value <= most.into() {
            true => Ok(value as u32),
            false => Err(Error::TooLarge { what, value, most: most.into() }),
        };
        let functions = u64::from(self.functions) + u64::from(header.num_fdes);
        let functions = has_room("functions of a table", functions, self.capacity.functions)?;
        let row_bytes = u64::from(self.row_bytes) + rows.len().to_u64().next_multiple_of(4);
        let room = NO_ROWS + self.capacity.row_bytes.next_multiple_of(4);
        let row_bytes = has_room("bytes of rows of a table", row_bytes, room)?;
        let fres = has_room("rows of a table", u64::from(self.fres) + u64::from(header.num_fres), u32::MAX)?;
        for entry in index.chunks_exact_mut(4 * FDE) {
            if let Some(fde) = Fde::read(entry, VERSION, endian) {
                let fde = Fde { fre_off: fde.fre_off + self.row_bytes, ..fde };
                entry[12..].copy_from_slice(&endian.put_u32(fde.fre_off));
            }
        }
        self.store(self.rows_at() + self.row_bytes.to_usize() / 4, rows);
        self.store(self.index_of(self.functions), index);
        self.publish(NUM_FRES, fres);
        self.publish(NUM_FDES, functions);
        (self.functions, self.fres, self.row_bytes, self.end) = (functions, fres, row_bytes, end);
        Ok(sframe.omitted().to_vec())
    }

    /// Removes the functions that start in `length` bytes of code at `start`: one function, or those of a region. From then
    /// on the table has no row for their PCs. No thread may be in them: it would be unwound no further.
    ///
    /// # Errors
    /// [`Error::NotFound`]: there are none, or they were removed before.
    pub fn remove(&mut self, start: Address, length: u64) -> Result<(), Error> {
        let (mut low, mut high) = (0, self.functions);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start_of(middle) < start { low = middle + 1 } else { high = middle }
        }
        let mut is_found = false;
        for number in low..self.functions {
            if self.start_of(number).0 - start.0 >= length {
                break;
            }
            let at = self.index_of(number);
            if self.load(at + SIZE_IN_FDE) == 0 {
                continue;
            }
            is_found = true;
            let attribute = 4 * self.rows_at() + self.load(at + ROWS_IN_FDE).to_usize();
            self.publish(at + SIZE_IN_FDE, 0);
            self.publish(at + ROWS_IN_FDE, 0);
            self.fres = self.fres.saturating_sub(self.num_fres(attribute));
        }
        self.publish(NUM_FRES, self.fres);
        if is_found { Ok(()) } else { Err(Error::NotFound { start }) }
    }

    /// The number of rows of an attribute, its first two bytes.
    fn num_fres(&self, attribute: usize) -> u32 {
        let byte = |at: usize| self.words[at / 4].load(Ordering::Relaxed).to_ne_bytes()[at % 4];
        self.arch.endian().u16([byte(attribute), byte(attribute + 1)]).into()
    }

    /// Bytes of the table, its room included: what is registered.
    pub fn size(&self) -> u64 {
        self.words.len().to_u64() * 4
    }

    /// The registration for code that lies, or will lie, in `length` bytes at `text`: the whole mapping.
    pub fn registration(&self, text: Address, length: u64) -> Registration {
        Registration::new(self.address, self.size(), text, length)
    }

    /// The word at which an entry of the index starts.
    fn index_of(&self, function: u32) -> usize {
        INDEX + FDE * function.to_usize()
    }

    /// The word at which rows start.
    fn rows_at(&self) -> usize {
        self.index_of(self.capacity.functions)
    }

    fn start_of(&self, function: u32) -> Address {
        let at = self.index_of(function);
        let (first, second) = (self.load(at), self.load(at + 1));
        let endian = self.arch.endian();
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&endian.put_u32(first));
        bytes[4..].copy_from_slice(&endian.put_u32(second));
        let field = Address(self.address.0.wrapping_add(4 * at.to_u64()));
        field.offset(endian.u64(bytes) as i64)
    }

    /// A word, in the table's byte order. The writer alone loads without ordering: it stored them itself.
    fn load(&self, at: usize) -> u32 {
        self.arch.endian().u32(self.words[at].load(Ordering::Relaxed).to_ne_bytes())
    }

    /// Stores a word after everything before it.
    fn publish(&self, at: usize, value: u32) {
        let word = u32::from_ne_bytes(self.arch.endian().put_u32(value));
        self.words[at].store(word, Ordering::Release);
    }

    /// Stores bytes where no reader looks.
    fn store(&self, at: usize, bytes: &[u8]) {
        for (word, bytes) in self.words[at..].iter().zip(bytes.chunks(4)) {
            let mut whole = [0; 4];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u32::from_ne_bytes(whole), Ordering::Relaxed);
        }
    }
}
