//! The table of a loaded file: a copy of its `.sframe`, or made of its `.eh_frame`.

use core::hash::Hasher;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::hash::DefaultHasher;
use std::sync::Arc;

use cfipack_cfi::{Functions, Section as CfiSection, SectionKind, eh_frame_len};
use cfipack_decoder::sframe::{Error, Frame, Index, Section};
use cfipack_encoder::sframe::{Builder, Options};
use cfipack_format::{Address, Key};
use libc::PT_GNU_EH_FRAME;

use crate::ARCH;
use crate::loader::{LoadedFile, PT_GNU_SFRAME};

/// A version 1 header whose pointer to `.eh_frame` is a 32-bit distance, as linkers write it.
const HEADER: [u8; 2] = [1, 0x1b];

/// Where the rows of a file are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'l> {
    address: u64,
    bytes: &'l [u8],
    /// True for a `.sframe`, false for an `.eh_frame`.
    is_table: bool,
}

impl<'l> Source<'l> {
    /// Finds the rows of a file.
    pub(crate) fn of(file: &LoadedFile<'l>) -> Option<Self> {
        let table = file.segment(PT_GNU_SFRAME).filter(|&(address, bytes)| {
            Section::parse(bytes, Address(address)).is_ok_and(|section| section.arch() == ARCH)
        });
        if let Some((address, bytes)) = table {
            return Some(Self { address, bytes, is_table: true });
        }
        let (header_address, header) = file.segment(PT_GNU_EH_FRAME)?;
        let distance = i32::from_ne_bytes(*header.strip_prefix(&HEADER)?.get(2..)?.first_chunk()?);
        let address = header_address.wrapping_add(4).wrapping_add_signed(distance.into());
        let bytes = file.bytes_from(address)?;
        // The records before a damaged record are readable.
        let len = eh_frame_len(bytes, ARCH).unwrap_or_else(|error| error.offset().0);
        Some(Self { address, bytes: &bytes[..len], is_table: false })
    }

    /// Returns a hash of the bytes. Another file at the same place has another hash.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.address);
        hasher.write(self.bytes);
        hasher.finish()
    }

    /// Returns the bytes of a table with these rows, or the size that is more than `room`.
    fn table(&self, room: usize) -> Result<Box<[u8]>, usize> {
        let Self { address, bytes, is_table } = *self;
        if is_table {
            return if bytes.len() > room { Err(bytes.len()) } else { Ok(bytes.into()) };
        }
        let section = CfiSection::new(SectionKind::EhFrame, bytes, Address(address), ARCH);
        // The format has this architecture.
        let mut builder = Builder::new(ARCH, Options::new()).map_err(|_| usize::MAX)?;
        builder.push_all(Functions::new(&section), |_| {});
        let section = builder.finish();
        if section.len() > room {
            return Err(section.len());
        }
        let mut table = vec![0; section.len()].into_boxed_slice();
        section.write(&mut table, Address(address), Key::address).map_err(|_| usize::MAX)?;
        Ok(table)
    }
}

/// A boxed slice that references outlive moves of.
struct Kept<T>(NonNull<[T]>);

impl<T> Kept<T> {
    fn new(slice: Box<[T]>) -> Self {
        // SAFETY: a box is not null.
        Self(unsafe { NonNull::new_unchecked(Box::into_raw(slice)) })
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: made from a box.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The table of a file, and the memory that the table refers to.
pub(crate) struct Table {
    rows: Rows,
    /// The memory that [`Self::rows`] refers to.
    _bytes: Kept<u8>,
    _words: Kept<u32>,
    size: usize,
    memory: Arc<AtomicUsize>,
}

enum Rows {
    InPlace(Section<'static>),
    Indexed(Index<'static, 'static>),
}

// SAFETY: nothing writes to the memory after the table is made.
unsafe impl Send for Table {}
unsafe impl Sync for Table {}

impl Table {
    /// Makes the table of a file. `memory` counts the bytes of all tables, and `budget` is its limit. Returns the size of
    /// a table that is too large, which is `usize::MAX` if no table can be made.
    pub(crate) fn new(source: Source<'_>, memory: &Arc<AtomicUsize>, budget: usize) -> Result<Self, usize> {
        let room = budget.saturating_sub(memory.load(Ordering::Relaxed));
        let bytes = Kept::new(source.table(room)?);
        // SAFETY: the memory lives as long as the table, which drops these references with it.
        let section = unsafe { bytes.0.as_ref() };
        let section = Section::parse(section, Address(source.address)).map_err(|_| usize::MAX)?;
        let words = Kept::new(vec![0; Index::len_for(&section)].into_boxed_slice());
        let size = bytes.0.len() + words.0.len() * size_of::<u32>();
        if size > room {
            return Err(size);
        }
        // SAFETY: as above, and nothing else refers to the words.
        let rows = match Index::build(&section, unsafe { &mut *words.0.as_ptr() }) {
            Ok(index) => Rows::Indexed(index),
            // Lookups in a damaged table say which rows are damaged.
            Err(_) => Rows::InPlace(section),
        };
        memory.fetch_add(size, Ordering::Relaxed);
        Ok(Self { rows, _bytes: bytes, _words: words, size, memory: Arc::clone(memory) })
    }

    /// Looks up the row for an address of the process.
    pub(crate) fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error> {
        match &self.rows {
            Rows::InPlace(section) => section.lookup_frame(pc),
            Rows::Indexed(index) => index.lookup_frame(pc),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.memory.fetch_sub(self.size, Ordering::Relaxed);
    }
}
