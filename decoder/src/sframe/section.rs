//! The section as a whole: its header, and the bounds of its two sub-sections.

use core::iter::FusedIterator;

use cfipack_format::sframe::{Abi, Flags, Header, MAX_FRES_PER_BYTE, Version};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Endian, SectionOffset};

use super::{Error, Function};

/// A view of a `.sframe` section. It borrows the section's bytes, so a copy of the view is cheap.
///
/// Get a view with [`Section::parse`], then look up PCs or list the functions.
///
/// ```
/// use cfipack_decoder::sframe::Section;
/// use cfipack_format::Address;
///
/// // A function with a frame pointer at 0x1000: push rbp; mov rbp, rsp; nop; pop rbp; ret.
/// let table = [
///     0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 4, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, // header
///     0xe4, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, // index
///     4, 0, 0, 0, 0, 0, 3, 8, 1, 5, 16, 0xf0, 4, 4, 16, 0xf0, 6, 5, 8, 0xf0, // rows
/// ];
/// let section = Section::parse(&table, Address(0x2000))?;
/// section.validate()?;
/// for function in section.functions() {
///     let function = function?;
///     assert_eq!((function.start(), function.size()), (Address(0x1000), 7));
///     let starts = function.rows().map(|row| row.map(|row| row.start.0)).collect::<Result<Vec<_>, _>>()?;
///     assert_eq!(starts, [0, 1, 4, 6]);
/// }
/// # Ok::<(), cfipack_decoder::sframe::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    header: Header,
    pub(super) version: Version,
    pub(super) abi: Abi,
    endian: Endian,
    /// True if each start is relative to its own field, false if starts are relative to the section.
    is_pc_relative: bool,
    address: Address,
    /// Offset of the function index from the section's start.
    pub(super) index_offset: usize,
    /// Offset of the FRE sub-section from the section's start.
    pub(super) fres_offset: usize,
    pub(super) index: &'a [u8],
    pub(super) fres: &'a [u8],
}

impl<'a> Section<'a> {
    /// Reads the header and checks that both sub-sections lie within `bytes`.
    ///
    /// This function does not look at functions and rows: lookups check the part that they read, and
    /// [`Section::validate`] checks everything. It reads only the header and the bytes after the table.
    ///
    /// `address` is where `bytes` lie in memory, because starts of functions are relative to it. Relocate the
    /// bytes of a relocatable object first. Only zeros may follow the table: GNU `as` pads s390x sections to 8
    /// bytes, and GNU `ld` makes the `PT_GNU_SFRAME` segment too long.
    ///
    /// # Errors
    /// No version has this header, a sub-section lies outside `bytes` or overlaps the other, or a byte other
    /// than zero follows the table.
    pub fn parse(bytes: &'a [u8], address: Address) -> Result<Self, Error> {
        let (section, rest) = Self::parse_first(bytes, address)?;
        match rest.iter().position(|&byte| byte != 0) {
            None => Ok(section),
            Some(at) => {
                Err(Error::Trailing { offset: SectionOffset(bytes.len() - rest.len() + at), value: rest[at] })
            }
        }
    }

    /// Reads one table, and also returns the bytes after it.
    ///
    /// Use this function when a section may hold several tables: lld and mold do not know the format, and place
    /// the tables of their inputs one after the other. It takes the same time for every table.
    ///
    /// # Errors
    /// The errors of [`Section::parse`], except for bytes after the table.
    pub fn parse_first(bytes: &'a [u8], address: Address) -> Result<(Self, &'a [u8]), Error> {
        let Some(head) = bytes.first_chunk::<{ Header::SIZE }>() else {
            return Err(Error::TooShort { len: bytes.len() });
        };
        let magic = [head[0], head[1]];
        let endian = Header::endian_of(magic).ok_or(Error::Magic { value: magic })?;
        let header = Header::read(head, endian);
        let version = Version::from_number(header.version).ok_or(Error::Version { value: header.version })?;
        if !version.known_flags().contains(header.flags) {
            return Err(Error::Flags { value: header.flags.bits() });
        }
        let abi = Abi::from_number(header.abi).ok_or(Error::Abi { value: header.abi })?;
        if abi.arch().endian() != endian {
            return Err(Error::ByteOrder { abi: header.abi });
        }
        if header.fixed_ra_offset != abi.fixed_ra_offset() {
            return Err(Error::FixedReturnAddress { value: header.fixed_ra_offset });
        }

        let headers = (Header::SIZE + usize::from(header.auxhdr_len)).to_u64();
        let index_start = headers + u64::from(header.fde_off);
        let index_end = index_start + u64::from(header.num_fdes) * version.fde_size().to_u64();
        let fres_start = headers + u64::from(header.fre_off);
        let fres_end = fres_start + u64::from(header.fre_len);
        let out_of_index = Error::FunctionIndex { offset: index_start, num_fdes: header.num_fdes };
        if index_end > fres_start {
            return Err(out_of_index);
        }
        let index = range(bytes, index_start, index_end).ok_or(out_of_index)?;
        let fres = range(bytes, fres_start, fres_end)
            .ok_or(Error::FreSubSection { offset: fres_start, len: header.fre_len })?;
        // Both sub-sections lie within `bytes`, so their ends fit `usize`.
        let (index_offset, fres_offset) = (index_start.to_usize(), fres_start.to_usize());
        let rest = &bytes[fres_end.to_usize()..];
        let is_pc_relative = header.flags.contains(Flags::START_PCREL);
        let section = Self {
            header,
            version,
            abi,
            endian,
            is_pc_relative,
            address,
            index_offset,
            fres_offset,
            index,
            fres,
        };
        Ok((section, rest))
    }

    /// Returns the size in bytes of the table at the start of `bytes`, as its header claims.
    ///
    /// Use this function to find out how far to read when you do not know where the table ends. If `bytes` have
    /// no valid header, it returns the size of a header, and [`Section::parse`] then reports the error.
    pub fn claimed_len(bytes: &[u8]) -> u64 {
        let header_size = Header::SIZE.to_u64();
        let Some(head) = bytes.first_chunk() else { return header_size };
        let Some(endian) = Header::endian_of([head[0], head[1]]) else { return header_size };
        let header = Header::read(head, endian);
        let Some(version) = Version::from_number(header.version) else { return header_size };
        let index = u64::from(header.fde_off) + u64::from(header.num_fdes) * version.fde_size().to_u64();
        let fres = u64::from(header.fre_off) + u64::from(header.fre_len);
        header_size + u64::from(header.auxhdr_len) + index.max(fres)
    }

    /// Returns the number of bytes of the table, including the header and excluding the bytes after the table.
    #[expect(clippy::len_without_is_empty, reason = "a table has a header at least")]
    pub fn len(&self) -> usize {
        self.fres_offset + self.fres.len()
    }

    /// For a relocatable object: reads the starts as the relocations made them.
    ///
    /// For each start field, `is_relative` returns whether the field's relocation subtracts the field's own
    /// address. GNU `as` up to 2.44 writes relocations of this kind without the flag in the header. If every
    /// field has a relative relocation, this function reads the starts as relative to their field.
    /// [`Section::header`] still returns the stored flags.
    #[must_use]
    pub fn relocated(mut self, is_relative: impl FnMut(SectionOffset) -> bool) -> Self {
        self.is_pc_relative =
            self.is_pc_relative || (!self.index.is_empty() && self.start_fields().all(is_relative));
        self
    }

    /// Returns the offsets of the fields that hold the functions' starts, in the order of the index.
    pub fn start_fields(&self) -> impl ExactSizeIterator<Item = SectionOffset> + FusedIterator + use<> {
        let (first, size) = (self.index_offset, self.version.fde_size());
        (0..self.num_functions()).map(move |index| SectionOffset(first + index * size))
    }

    /// Returns the header as stored.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the version of the format.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the architecture of the ABI.
    pub fn arch(&self) -> Arch {
        self.abi.arch()
    }

    /// Returns the ABI.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// Returns the byte order of the table.
    #[inline]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the address of the section, as given to [`Section::parse`].
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns whether the header states that the index is sorted by function start.
    pub fn is_sorted(&self) -> bool {
        self.header.flags.contains(Flags::FDE_SORTED)
    }

    /// Returns the number of functions.
    pub fn num_functions(&self) -> usize {
        self.index.len() / self.version.fde_size()
    }

    /// Returns all functions in the order of the index. A function that cannot be read is an `Err` item, and
    /// the iterator goes on after it.
    ///
    /// Functions can share FREs, so a small hostile table could make you read rows for hours. A function that
    /// goes beyond [`MAX_FRES_PER_BYTE`] is therefore an error too.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = Result<Function<'a>, Error>> + FusedIterator {
        let section = *self;
        let most = (section.index.len() + section.fres.len()).to_u64() * MAX_FRES_PER_BYTE.to_u64();
        let mut fres = 0;
        (0..section.num_functions()).map(move |index| {
            let fde = section.fde(index).ok_or(Error::NoFunction { index })?;
            let function = section.function_of(index, fde)?;
            let sum = fres + u64::from(function.num_fres());
            if sum > most {
                return Err(Error::TooManyFres { offset: section.fde_offset(index), sum });
            }
            fres = sum;
            Ok(function)
        })
    }

    /// Checks the whole table: every function, every row, the order of an index that is declared sorted, and
    /// the number of FREs in the header.
    ///
    /// # Errors
    /// The first error in the table.
    pub fn validate(&self) -> Result<(), Error> {
        let mut sum = 0;
        let mut previous = i64::MIN;
        for (i, function) in self.functions().enumerate() {
            let function = function?;
            let start = function.start().distance_from(self.address);
            if self.is_sorted() && start < previous {
                return Err(Error::NotSorted { offset: self.fde_offset(i) });
            }
            previous = start;
            sum += u64::from(function.num_fres());
            function.check_repetition()?;
            function.rows().try_for_each(|row| row.map(drop))?;
        }
        if sum != u64::from(self.header.num_fres) {
            return Err(Error::NumFres { value: self.header.num_fres, sum });
        }
        Ok(())
    }

    /// Returns the offset of the FDE number `index` from the section's start. `index` must be below
    /// [`num_functions`](Section::num_functions).
    pub fn fde_offset(&self, index: usize) -> SectionOffset {
        SectionOffset(self.index_offset + index * self.version.fde_size())
    }

    /// Returns whether each start is relative to its own field instead of the section.
    #[inline]
    pub(super) fn is_pc_relative(&self) -> bool {
        self.is_pc_relative
    }
}

fn range(bytes: &[u8], start: u64, end: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}
