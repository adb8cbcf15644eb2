//! The section as a whole: its header and where its two sub-sections lie.

use core::iter::FusedIterator;

use cfipack_format::sframe::{Abi, Flags, Header, MAX_FRES_PER_BYTE, Version};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Endian, SectionOffset};

use super::{Error, Function};

/// A `.sframe` section, borrowed. Copying it copies no bytes of the table.
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
    /// True if starts count from their own field rather than from the section.
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
    /// Reads the header and checks that both sub-sections lie within `bytes`; what they hold is
    /// checked where it is read, or all of it by [`Section::validate`]. Of the bytes it reads the header,
    /// and whatever follows the table.
    ///
    /// `address` is where `bytes` lie in memory, since functions are found relative to it. Bytes of
    /// a relocatable object must have been relocated. After the table only zeros may follow: GNU
    /// `as` pads s390x sections to 8 bytes, GNU `ld` makes the `PT_GNU_SFRAME` segment too long.
    ///
    /// # Errors
    /// A header that no version has, a sub-section outside of `bytes` or in the other, anything but zeros
    /// after the table.
    pub fn parse(bytes: &'a [u8], address: Address) -> Result<Self, Error> {
        let (section, rest) = Self::parse_first(bytes, address)?;
        match rest.iter().position(|&byte| byte != 0) {
            None => Ok(section),
            Some(at) => {
                Err(Error::Trailing { offset: SectionOffset(bytes.len() - rest.len() + at), value: rest[at] })
            }
        }
    }

    /// Reads as [`Section::parse`], but whatever follows the table is returned: lld and mold, which do
    /// not know the format, leave several tables one after the other. Takes the same time for every
    /// table.
    ///
    /// # Errors
    /// Those of [`Section::parse`], but for what follows the table.
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
        // Both lie within `bytes`, so their ends are of type `usize`.
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

    /// The size in bytes of the table that `bytes` start with, as its header claims: to know how far to read
    /// where the end is not known. The header's own size if `bytes` have no header, or one that no version
    /// has: [`Section::parse`] then reports what is wrong with it.
    pub fn claimed_len(bytes: &[u8]) -> u64 {
        let claimed = || {
            let head = bytes.first_chunk()?;
            let header = Header::read(head, Header::endian_of([head[0], head[1]])?);
            let version = Version::from_number(header.version)?;
            let index = u64::from(header.fde_off) + u64::from(header.num_fdes) * version.fde_size().to_u64();
            let fres = u64::from(header.fre_off) + u64::from(header.fre_len);
            Some((Header::SIZE + usize::from(header.auxhdr_len)).to_u64() + index.max(fres))
        };
        claimed().unwrap_or(Header::SIZE.to_u64())
    }

    /// Bytes of the table, header included, without what follows it.
    #[expect(clippy::len_without_is_empty, reason = "a table has a header at least")]
    pub fn len(&self) -> usize {
        self.fres_offset + self.fres.len()
    }

    /// Of a relocatable object: the section with its starts read as their relocations made them.
    /// `is_relative` returns for a field whether its relocation subtracts the field's own address. GNU
    /// `as` up to 2.44 wrote such relocations without the flag for it; the header stays as
    /// stored.
    #[must_use]
    pub fn relocated(mut self, is_relative: impl FnMut(SectionOffset) -> bool) -> Self {
        self.is_pc_relative =
            self.is_pc_relative || (!self.index.is_empty() && self.start_fields().all(is_relative));
        self
    }

    /// The fields of the functions' starts, in the order of the index.
    pub fn start_fields(&self) -> impl ExactSizeIterator<Item = SectionOffset> + FusedIterator + use<> {
        let (first, size) = (self.index_offset, self.version.fde_size());
        (0..self.num_functions()).map(move |index| SectionOffset(first + index * size))
    }

    /// The header as stored.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Version of the format.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The architecture that the ABI names.
    pub fn arch(&self) -> Arch {
        self.abi.arch()
    }

    /// The ABI.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// Byte order of the table.
    #[inline]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// The address of the section, as given to [`Section::parse`].
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns whether the header states that the index is sorted by function start.
    pub fn is_sorted(&self) -> bool {
        self.header.flags.contains(Flags::FDE_SORTED)
    }

    /// Number of functions.
    pub fn num_functions(&self) -> usize {
        self.index.len() / self.version.fde_size()
    }

    /// All functions in the order of the index. One that cannot be read is an item, and the rest
    /// follow.
    ///
    /// Functions may share FREs, so those of a hostile table would take hours to walk: one that
    /// goes beyond [`MAX_FRES_PER_BYTE`] counts as one that cannot be read.
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

    /// Checks the whole table: beside every function and row, whether a sorted index is sorted, and
    /// the header's number of FREs.
    ///
    /// # Errors
    /// The first in the table.
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
            for row in function.rows() {
                row?;
            }
        }
        match sum == u64::from(self.header.num_fres) {
            true => Ok(()),
            false => Err(Error::NumFres { value: self.header.num_fres, sum }),
        }
    }

    /// The offset of the FDE at a place of the index, from the section's start on. The place is below
    /// [`num_functions`](Section::num_functions).
    pub fn fde_offset(&self, index: usize) -> SectionOffset {
        SectionOffset(self.index_offset + index * self.version.fde_size())
    }

    /// Returns whether starts count from their own field rather than from the section.
    #[inline]
    pub(super) fn is_pc_relative(&self) -> bool {
        self.is_pc_relative
    }
}

fn range(bytes: &[u8], start: u64, end: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}
