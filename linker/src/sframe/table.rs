//! Raw access to the function index and the rows of an input table.

use cfipack_format::widen::{ToU64, ToUsize};

use super::Field;
use crate::decoder::sframe::{Error, Section};
use crate::format::sframe::{Attribute, Fde, FdeInfo, FdeType, MAX_FRES_PER_BYTE, Version};
use crate::format::{Endian, SectionOffset};

/// A table whose header has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    pub(crate) section: Section<'a>,
    /// The start of the table in its section.
    at: SectionOffset,
    index: &'a [u8],
    /// The FRE sub-section.
    pub(crate) fres: &'a [u8],
}

/// The place of a function's FREs in the FRE sub-section. In version 3, the attribute does not belong to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RowBytes {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// The fields of a function's FDE and of its attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) size: u32,
    /// The offset of the first FRE in the FRE sub-section.
    pub(crate) first: u32,
    pub(crate) num_fres: u32,
    pub(crate) info: FdeInfo,
    /// The second info byte of the attribute.
    pub(crate) info2: u8,
    /// The repetition size as stored.
    pub(crate) rep_size: u8,
}

impl Head {
    /// Returns the fields outside the rows that determine the meaning of the rows. In version 3 these fields
    /// are part of the attribute, so this function returns zeros.
    pub(crate) fn beside_rows(&self, version: Version) -> (u8, u8) {
        if version.has_attributes() { (0, 0) } else { (self.info.bits(), self.rep_size) }
    }

    /// Returns whether the function may have flex FREs: its type is flex or unknown.
    pub(crate) fn is_flex(&self) -> bool {
        FdeType::from_info2(self.info2) != Some(FdeType::Default)
    }
}

impl<'a> Table<'a> {
    /// Creates the table at the start of `bytes`; `at` is the table's offset in its section.
    pub(crate) fn new(section: Section<'a>, bytes: &'a [u8], at: SectionOffset) -> Self {
        let len = section.len();
        let first = section.fde_offset(0).0;
        let index = &bytes[first..first + section.num_functions() * section.version().fde_size()];
        let fres = &bytes[len - section.header().fre_len.to_usize()..len];
        Self { section, at, index, fres }
    }

    pub(crate) fn version(&self) -> Version {
        self.section.version()
    }

    pub(crate) fn endian(&self) -> Endian {
        self.section.endian()
    }

    /// Returns the place of a function's start field.
    #[inline]
    pub(crate) fn start_field(&self, index: usize) -> Field {
        Field::Sframe(SectionOffset(self.at.0 + self.section.fde_offset(index).0))
    }

    /// Reads a function's FDE and attribute. Returns `None` if the attribute lies outside of the FRE sub-section.
    #[inline]
    pub(crate) fn head(&self, index: usize) -> Option<Head> {
        match self.version() {
            Version::V1 | Version::V2 => {
                let size = self.version().fde_size();
                let bytes = self.index.get(index * size..(index + 1) * size)?;
                let fde = Fde::read(bytes, self.version(), self.endian())?;
                let Fde { size, fre_off, num_fres, info, rep_size, .. } = fde;
                Some(Head { size, first: fre_off, num_fres, info, info2: 0, rep_size })
            }
            Version::V3 => {
                let fde = self.index.as_chunks::<{ Version::V3.fde_size() }>().0.get(index)?;
                let Fde { size, fre_off, .. } = Fde::read(fde, Version::V3, self.endian())?;
                let attribute = self.fres.get(fre_off.to_usize()..)?.first_chunk()?;
                let Attribute { num_fres, info, info2, rep_size } = Attribute::read(attribute, self.endian());
                let first = fre_off + Attribute::SIZE as u32;
                Some(Head { size, first, num_fres: num_fres.into(), info, info2, rep_size })
            }
        }
    }

    /// Refuses a table whose functions share rows so often that reading all rows takes far longer than the size of
    /// the table explains.
    #[inline]
    pub(crate) fn check_num_fres(&self, index: usize, sum: u64) -> Result<(), Error> {
        let most = (self.index.len() + self.fres.len()).to_u64() * MAX_FRES_PER_BYTE.to_u64();
        if sum > most {
            return Err(Error::TooManyFres { offset: self.section.fde_offset(index), sum });
        }
        Ok(())
    }
}
