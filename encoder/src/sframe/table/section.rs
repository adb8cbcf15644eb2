//! The finished [`Section`]: its exact size, and its bytes once addresses are known.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::sframe::{Abi, Fde, FdeInfo, Flags, Header, Version};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Endian, Key, SectionOffset};

use crate::Unsupported;
use crate::sframe::options::{Layout, Options};
use crate::sframe::table::at::At;
use crate::sframe::table::block::Blocks;
use crate::sframe::table::conflict::{Clash, Conflict, Index, Shared, Written};
use crate::sframe::table::entries::{Entries, Entry, Omitted};
use crate::sframe::table::order::Order;
use crate::sframe::table::place::{Place, Places, part_of};
use crate::sframe::table::wide_attribute::WideAttribute;
use crate::sframe::table::write_error::WriteError;
use cfipack_format::pool::{Pool, Serial};

/// A finished section that needs only addresses.
///
/// The size is exact. You can write the section again after each relayout, because nothing is read or encoded
/// again. Rows that you [lent](crate::sframe::Builder::push_lent) stay in their owner's memory. The section
/// borrows nothing else.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    pub(super) abi: Abi,
    pub(super) options: Options,
    pub(super) entries: Vec<Entry>,
    pub(super) places: Places,
    pub(super) blocks: Blocks<'a>,
    pub(super) num_fres: u64,
    /// For each function that was merged into another function's FDE: the place of the other function, and
    /// the place of the merged function.
    pub(super) merged: Vec<(Place, Place)>,
    /// Functions that were pushed and are not in the section.
    pub(super) omitted: Vec<Unsupported>,
    /// The omitted functions, if functions have no addresses yet: functions that were refused, and functions
    /// that were not pushed.
    unplaced: Option<Vec<Omitted>>,
}

/// The field in the function index that has an entry's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StartField {
    /// The offset of the field in the section.
    pub field: SectionOffset,
    /// The function.
    pub function: Key,
    /// Bytes from the function's start to the start of the entry.
    pub offset: u64,
}

impl StartField {
    /// Returns the start of the entry, if functions are identified by their addresses.
    pub const fn address(&self) -> Address {
        Address(self.function.0.wrapping_add(self.offset))
    }
}

impl<'a> Section<'a> {
    /// Makes a section. If functions are not `placed`, overlaps are found when they get addresses.
    pub(crate) fn new(
        abi: Abi,
        options: Options,
        entries: Entries<'a>,
        omitted: Vec<Unsupported>,
        placed: bool,
    ) -> Self {
        let places = Places::new(&entries);
        let Entries { mut list, mut blocks, num_fres, merged, parts, .. } = entries;
        // Give back memory that only more functions would need.
        list.shrink_to_fit();
        blocks.end_growth();
        let place = |start| Place::new(part_of(&parts, start).unwrap_or(start), start);
        let merged = merged.into_iter().map(|(first, start)| (place(first), place(start))).collect();
        let unplaced = (!placed).then_some(entries.omitted);
        Self { abi, options, entries: list, places, blocks, num_fres, merged, omitted, unplaced }
    }

    /// Copies rows that were [lent](crate::sframe::Builder::push_lent) into the section, so that the lender may
    /// free them. A section without lent rows is returned as it is.
    pub fn into_owned(self) -> Section<'static> {
        let Self { abi, options, entries, places, blocks, num_fres, merged, omitted, unplaced } = self;
        let blocks = blocks.into_owned();
        Section { abi, options, entries, places, blocks, num_fres, merged, omitted, unplaced }
    }

    /// Returns the functions that the [builder](crate::sframe::Builder) accepted and the section omits. See
    /// [`Builder::finish`](crate::sframe::Builder::finish) and [`Self::omit_distant`] for the reasons.
    pub fn omitted(&self) -> &[Unsupported] {
        &self.omitted
    }

    /// Returns the exact size of the section in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a section is never empty: it has a header")]
    pub fn len(&self) -> usize {
        self.fres_at() + self.blocks.len_in_bytes()
    }

    /// Returns the size of the section of a relocatable object, in bytes. gas 2.47 pads this section to a
    /// multiple of 8 on s390x, and layout `Gnu` does the same.
    pub fn relocatable_len(&self) -> usize {
        let align = match (self.options.layout, self.abi) {
            (Layout::Gnu, Abi::S390x) => 8,
            (Layout::Gnu, Abi::Amd64 | Abi::Aarch64 | Abi::Aarch64Be) | (Layout::Small, _) => 1,
        };
        self.len().next_multiple_of(align)
    }

    /// Returns the number of entries in the function index.
    pub fn num_fdes(&self) -> usize {
        self.entries.len()
    }

    /// Returns the size of the code of all entries together, in bytes. An entry need not have a row at each of
    /// its PCs.
    pub fn code_len(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.size)).sum()
    }

    /// Returns the start of each entry, with the offset of the field that a relocatable object relocates. The
    /// entries are in the order in which functions were pushed, or with [`Options::merge_functions`] in the
    /// order of addresses.
    ///
    /// An entry usually starts where a function starts. If a function has several entries, the later entries
    /// start inside it. Examples are a PLT, where the stubs have their own entry, a function with more rows
    /// than an entry can count, and a function around another function.
    pub fn start_fields(&self) -> impl Iterator<Item = StartField> + '_ {
        let size = self.options.version.fde_size();
        self.places.iter(0, &self.entries).enumerate().map(move |(number, place)| StartField {
            field: SectionOffset(Header::SIZE + number * size),
            function: place.function,
            offset: place.offset,
        })
    }

    /// Writes the section of a linked file into `out`, which must have [`Self::len`] bytes.
    ///
    /// The section will lie `at` an address. `address_of` returns the address of the function with a given
    /// key. If functions are identified by their addresses, the key is the address in the CFI. You must move
    /// all code of a function with its start, functions that share PCs by equal distances, and a PLT by a
    /// multiple of its stubs' size. With a [pool](At::on), several threads may call `address_of` at the same
    /// time.
    ///
    /// If functions have no addresses before, this function calls `address_of` for refused functions too. It is
    /// no error if functions turn out to share PCs: a function is omitted if another function starts inside it
    /// or at its start, and [`Written`] names both. The FREs then begin a few bytes after the end of the index.
    ///
    /// # Errors
    /// `out` has another length, a function is too far away for version 2, merged functions do not keep their
    /// distance, or the header cannot count the functions, rows or bytes. `out` may have been written to.
    pub fn write<'p>(
        &self,
        out: &mut [u8],
        at: impl Into<At<'p>>,
        address_of: impl Fn(Key) -> Address + Sync,
    ) -> Result<Written, WriteError> {
        let At { address, pool } = at.into();
        if out.len() != self.len() {
            return Err(WriteError::OutputLength { given: out.len(), needed: self.len() });
        }
        self.check_merged(&address_of)?;
        let (head, fres) = out.split_at_mut(self.fres_at());
        // Until the FREs are written, their memory holds the starts, if it is large enough.
        let mut more = Vec::new();
        let starts = match fres.as_chunks_mut().0.get_mut(..self.entries.len()) {
            Some(starts) => starts,
            None => {
                more.resize(self.entries.len(), [0; 8]);
                &mut more[..]
            }
        };
        self.places.addresses(pool, &self.entries, &address_of, starts);
        let start = |number: usize| u64::from_ne_bytes(starts[number]);
        let order = Order::new(pool, &self.entries, start, address);
        self.write_index(pool, head, &order, address).map_err(|error| self.with_key(error, &address_of))?;
        self.blocks.write(pool, fres);
        let clashes = self.omit_clashes(pool, out, address, &address_of)?;
        Ok(self.name(&clashes, address, &address_of))
    }

    /// Returns the bytes that [`Self::write`] would write, in the memory of the rows unless the section has rows of
    /// shards.
    ///
    /// # Errors
    /// As for [`Self::write`], except for the length. It is also an error here if functions without addresses
    /// turn out to share PCs.
    pub fn into_bytes<'p>(
        mut self,
        at: impl Into<At<'p>>,
        address_of: impl Fn(Key) -> Address + Sync,
    ) -> Result<Vec<u8>, WriteError> {
        let At { address, pool } = at.into();
        self.check_merged(&address_of)?;
        let mut bytes = self.blocks.take_bytes(self.fres_at(), pool);
        let mut entries = core::mem::take(&mut self.entries);
        self.places.move_all(pool, &mut entries, &address_of);
        self.entries = entries;
        let order = Order::new(pool, &self.entries, |number| self.entries[number].start, address);
        let fres_at = self.fres_at();
        self.write_index(pool, &mut bytes[..fres_at], &order, address)?;
        // Of functions with the same rows, the table keeps the last.
        let clashes = self.omit_clashes(pool, &mut bytes, address, &address_of)?;
        match clashes.iter().find(|clash| clash.function != clash.other) {
            None => Ok(bytes),
            Some(Clash { function, other, .. }) => {
                let [function, other] = [function, other].map(|it| it.address(address));
                Err(WriteError::Overlap { function, other })
            }
        }
    }

    /// Checks that merged functions keep their distance.
    fn check_merged(&self, address_of: &(impl Fn(Key) -> Address + Sync)) -> Result<(), WriteError> {
        for (first, other) in &self.merged {
            let [from, to] = [first, other].map(|place| place.address(address_of).0);
            if to.wrapping_sub(from) != other.start().wrapping_sub(first.start()) {
                return Err(WriteError::MergedApart { function: other.function });
            }
        }
        Ok(())
    }

    /// Removes entries from a written section if their functions share PCs. Returns the removed entries.
    fn omit_clashes(
        &self,
        pool: &dyn Pool,
        out: &mut [u8],
        address: Address,
        address_of: &impl Fn(Key) -> Address,
    ) -> Result<Vec<Clash>, WriteError> {
        let Some(omitted) = &self.unplaced else { return Ok(Vec::new()) };
        let mut omitted: Vec<_> =
            omitted.iter().map(|omitted| shared(omitted, address, address_of)).collect();
        let (head, fres) = out.split_at_mut(self.fres_at());
        let (at, version, endian) = (Header::SIZE, self.options.version, self.abi.arch().endian());
        let mut index = Index { fdes: &mut head[at..], at, version, endian };
        let clashes = index.clashes(pool, &mut omitted, |one, two| self.blocks.are_same(fres, one, two));
        if !clashes.is_empty() {
            let num_fres = self.num_fres - index.remove(&clashes, fres);
            let count = self.entries.len() - clashes.len();
            self.write_header(head, linked_flags(version), count, num_fres)?;
        }
        Ok(clashes)
    }

    /// Finds the keys of the functions that clash.
    fn name(&self, clashes: &[Clash], address: Address, address_of: &impl Fn(Key) -> Address) -> Written {
        let mut written = Written::default();
        if clashes.is_empty() {
            return written;
        }
        let mut functions: Vec<_> = clashes.iter().flat_map(|clash| [clash.function, clash.other]).collect();
        functions.sort_unstable();
        functions.dedup();
        let mut keys = vec![Key(0); functions.len()];
        let mut found = |function: Shared, key| {
            if let Ok(at) = functions.binary_search(&function) {
                keys[at] = key;
            }
        };
        for (entry, place) in self.entries.iter().zip(self.places.iter(0, &self.entries)) {
            let start = place.address(address_of).distance_from(address);
            let rows = Some(self.blocks.offset(entry.block));
            found(Shared { start, size: entry.size, rows }, place.function);
        }
        for omitted in self.unplaced.iter().flatten() {
            found(shared(omitted, address, address_of), Key(omitted.start));
        }
        let key = |function| functions.binary_search(function).map_or(Key(0), |at| keys[at]);
        // If entries have the same rows, one entry stays, so there is no conflict.
        let clashes = clashes.iter().filter(|clash| clash.function != clash.other);
        let conflicts = clashes
            .map(|Clash { function, other, .. }| Conflict { function: key(function), other: key(other) });
        written.conflicts.extend(conflicts);
        written
    }

    /// Adds the key of the function to an error.
    #[cold]
    fn with_key(&self, error: WriteError, address_of: &impl Fn(Key) -> Address) -> WriteError {
        let WriteError::StartTooFar { function, distance, .. } = error else { return error };
        let found = self.places.iter(0, &self.entries).find(|place| place.address(address_of) == function);
        WriteError::StartTooFar { function, key: found.map(|place| place.function), distance }
    }

    /// Returns the offset of the FRE sub-section, which follows header and index.
    fn fres_at(&self) -> usize {
        Header::SIZE + self.entries.len() * self.options.version.fde_size()
    }

    /// Writes the header and the index of a linked file, which lie before the FREs, into `out`.
    fn write_index(
        &self,
        pool: &dyn Pool,
        out: &mut [u8],
        order: &Order<'_, impl Fn(usize) -> u64 + Sync>,
        address: Address,
    ) -> Result<(), WriteError> {
        let endian = self.abi.arch().endian();
        for distance in order.range().into_iter().flat_map(|(least, greatest)| [least, greatest]) {
            if !self.options.version.reaches(distance) {
                let function = Address(address.0.wrapping_add(distance as u64));
                return Err(WriteError::StartTooFar { function, key: None, distance });
            }
        }
        match self.options.version {
            // Version 1 is not written.
            Version::V1 | Version::V2 => {
                const V2: usize = Version::V2.fde_size();
                let (fdes, _) = self.write_linked_header(out)?.as_chunks_mut::<V2>();
                let start = |&[a, b, c, d, ..]: &[u8; V2]| i64::from(endian.u32([a, b, c, d]) as i32);
                let fde = |entry: &Entry, distance| self.fde(Version::V2, endian, entry, distance);
                order.write(pool, fdes, fde, start, |_, _| ());
            }
            Version::V3 => {
                const V3: usize = Version::V3.fde_size();
                let (fdes, _) = self.write_linked_header(out)?.as_chunks_mut::<V3>();
                let start =
                    |&[a, b, c, d, e, f, g, h, ..]: &[u8; V3]| endian.u64([a, b, c, d, e, f, g, h]) as i64;
                let finish = |rank: usize, fde: &mut [u8; V3]| {
                    // The field holds the distance from itself, not from the section.
                    let field = (Header::SIZE + rank * V3) as i64;
                    let relative = start(fde).wrapping_sub(field);
                    fde[..8].copy_from_slice(&endian.put_u64(relative as u64));
                };
                let fde = |entry: &Entry, distance| self.fde(Version::V3, endian, entry, distance);
                order.write(pool, fdes, fde, start, finish);
            }
        }
        Ok(())
    }

    /// Writes the section of a relocatable object into `out`. `out` must have [`Self::relocatable_len`] bytes,
    /// or [`Self::len`] bytes without padding, as linkers write it.
    ///
    /// Starts are zero: each of [`Self::start_fields`] needs a relocation against its function, relative to the
    /// field. Merged functions must lie in the same section, where they keep their distance. binutils up to
    /// 2.44 refuses to link objects of version 2 if their flags declare starts relative to the fields, as this
    /// function's objects do.
    ///
    /// # Errors
    /// `out` has another length, or the header cannot count the functions, rows or bytes.
    pub fn write_relocatable(&self, out: &mut [u8]) -> Result<(), WriteError> {
        let needed = self.relocatable_len();
        if out.len() != needed && out.len() != self.len() {
            return Err(WriteError::OutputLength { given: out.len(), needed });
        }
        let (out, padding) = out.split_at_mut(self.len());
        padding.fill(0);
        let (head, fres) = out.split_at_mut(self.fres_at());
        self.blocks.write(&Serial, fres);
        let index = self.write_header(head, Flags::START_PCREL, self.entries.len(), self.num_fres)?;
        let (version, endian) = (self.options.version, self.abi.arch().endian());
        let size = version.fde_size();
        for (slot, entry) in index.chunks_exact_mut(size).zip(&self.entries) {
            slot.copy_from_slice(&self.fde::<{ Fde::MAX_SIZE }>(version, endian, entry, 0)[..size]);
        }
        Ok(())
    }

    /// Writes the header of a linked section. Returns the index after it.
    fn write_linked_header<'o>(&self, out: &'o mut [u8]) -> Result<&'o mut [u8], WriteError> {
        self.write_header(out, linked_flags(self.options.version), self.entries.len(), self.num_fres)
    }

    /// Writes the header, at the start of `out`. Returns the index after it.
    fn write_header<'o>(
        &self,
        out: &'o mut [u8],
        flags: Flags,
        num_fdes: usize,
        num_fres: u64,
    ) -> Result<&'o mut [u8], WriteError> {
        let header = Header {
            version: self.options.version as u8,
            flags,
            abi: self.abi as u8,
            fixed_fp_offset: 0,
            fixed_ra_offset: self.abi.fixed_ra_offset(),
            auxhdr_len: 0,
            num_fdes: count_field(num_fdes)?,
            num_fres: count_field(num_fres.to_usize())?,
            fre_len: count_field(self.blocks.len_in_bytes())?,
            fde_off: 0,
            fre_off: count_field(self.fres_at() - Header::SIZE)?,
        };
        let (head, rest) = out.split_at_mut(Header::SIZE);
        head.copy_from_slice(&header.write(self.abi.arch().endian()));
        Ok(&mut rest[..self.fres_at() - Header::SIZE])
    }

    /// Returns the first `N` bytes of an entry's FDE. The start is truncated to the bits of the field.
    #[inline(always)]
    fn fde<const N: usize>(&self, version: Version, endian: Endian, entry: &Entry, start: i64) -> [u8; N] {
        let has_attribute = !version.has_attributes();
        let attribute = if has_attribute { self.blocks.attribute(entry.block) } else { None };
        let fde = Fde {
            start,
            size: entry.size,
            fre_off: self.blocks.offset(entry.block),
            num_fres: attribute.map_or(0, WideAttribute::num_fres),
            info: attribute.map_or(FdeInfo::empty(), WideAttribute::info),
            rep_size: attribute.map_or(0, WideAttribute::rep_size),
        };
        let bytes = fde.write(version, endian);
        let mut first = [0; N];
        first.copy_from_slice(&bytes[..N]);
        first
    }
}

/// Returns the flags of a linked section. Before its first erratum, version 2 had no starts relative to their
/// fields.
fn linked_flags(version: Version) -> Flags {
    match version {
        Version::V1 | Version::V2 => Flags::FDE_SORTED,
        Version::V3 => Flags::FDE_SORTED | Flags::START_PCREL,
    }
}

/// Places an omitted function at its address.
fn shared(omitted: &Omitted, section: Address, address_of: &impl Fn(Key) -> Address) -> Shared {
    let start = address_of(Key(omitted.start)).distance_from(section);
    Shared { start, size: u32::try_from(omitted.size).unwrap_or(u32::MAX), rows: None }
}

/// Returns a count as the header has it, in 32 bits.
fn count_field(count: usize) -> Result<u32, WriteError> {
    u32::try_from(count).map_err(|_| WriteError::Count { count })
}
