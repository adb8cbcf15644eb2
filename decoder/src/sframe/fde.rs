//! One function: its FDE, and in version 3 its attribute.

use cfipack_format::sframe::{Attribute, Fde, FdeInfo, FdeType, FreType, Version};
use cfipack_format::{Address, FunctionOffset, Row, SectionOffset};

use super::{Error, Fres, Rows, Section};

/// A function of a section, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    pub(super) section: Section<'a>,
    index: usize,
    fde: Fde,
    num_fres: u32,
    info: FdeInfo,
    rep_size: u8,
    pub(super) fre_type: FreType,
    pub(super) fde_type: FdeType,
    /// From the function's first FRE to the end of the FRE sub-section.
    pub(super) fres: &'a [u8],
}

impl<'a> Section<'a> {
    /// The function with this index, the index being in the order of the FDEs.
    pub fn function(&self, index: usize) -> Result<Function<'a>, Error> {
        let fde = self.fde(index).ok_or(Error::NoFunction { index })?;
        self.describe(index, fde)
    }

    #[inline]
    pub(super) fn fde(&self, index: usize) -> Option<Fde> {
        let endian = self.endian();
        match self.version {
            Version::V1 => Fde::read(self.index.as_chunks::<17>().0.get(index)?, Version::V1, endian),
            Version::V2 => Fde::read(self.index.as_chunks::<20>().0.get(index)?, Version::V2, endian),
            Version::V3 => Fde::read(self.index.as_chunks::<16>().0.get(index)?, Version::V3, endian),
        }
    }

    /// Where the function of an FDE starts, in bytes from the section's start.
    #[inline]
    pub(super) fn relative_start(&self, index: usize, fde: &Fde) -> i64 {
        let field = match self.is_pc_relative() {
            true => self.index_offset + index * self.version.fde_size(),
            false => 0,
        };
        fde.start.wrapping_add(field as i64)
    }

    /// The function of an FDE, whose attribute or info byte is checked here.
    #[inline]
    pub(super) fn describe(&self, index: usize, fde: Fde) -> Result<Function<'a>, Error> {
        let out_of_bounds = || Error::FreOffset { offset: self.fde_offset(index), value: fde.fre_off };
        let rest = usize::try_from(fde.fre_off).ok().and_then(|at| self.fres.get(at..));
        let rest = rest.ok_or_else(out_of_bounds)?;
        let (attribute, fres) = if self.version == Version::V3 {
            let (attribute, fres) =
                rest.split_first_chunk::<{ Attribute::SIZE }>().ok_or_else(out_of_bounds)?;
            (Some(Attribute::read(attribute, self.endian())), fres)
        } else {
            (None, rest)
        };
        let (num_fres, info, rep_size) = match attribute {
            Some(a) => (u32::from(a.num_fres), a.info, a.rep_size),
            None => (fde.num_fres, fde.info, fde.rep_size),
        };
        let offset = || match attribute {
            Some(_) => SectionOffset(self.fres_offset + fde.fre_off as usize),
            None => self.fde_offset(index),
        };
        let fre_type =
            info.fre_type().ok_or_else(|| Error::FreType { offset: offset(), value: info.bits() })?;
        let fde_type = match attribute {
            None => FdeType::Default,
            Some(a) => a.fde_type().ok_or_else(|| Error::FdeType { offset: offset(), value: a.info2 })?,
        };
        // The least FRE is a start and an info byte.
        if u64::from(num_fres) * (fre_type.width() as u64 + 1) > fres.len() as u64 {
            return Err(Error::FreCount { offset: offset(), value: num_fres });
        }
        Ok(Function { section: *self, index, fde, num_fres, info, rep_size, fre_type, fde_type, fres })
    }
}

impl<'a> Function<'a> {
    /// Its place in the function index.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its first address.
    pub fn start(&self) -> Address {
        self.section.address().offset(self.section.relative_start(self.index, &self.fde))
    }

    /// Its size in bytes.
    pub fn size(&self) -> u32 {
        self.fde.size
    }

    /// The FDE as stored.
    pub fn fde(&self) -> &Fde {
        &self.fde
    }

    /// Number of FREs. GNU `as` writes functions without any, where it could not say how to unwind
    /// them: they have no row for any PC.
    pub fn num_fres(&self) -> u32 {
        self.num_fres
    }

    /// Width of its FREs' starts.
    pub fn fre_type(&self) -> FreType {
        self.fre_type
    }

    /// What kind of FREs it has: DEFAULT in versions 1 and 2.
    pub fn fde_type(&self) -> FdeType {
        self.fde_type
    }

    /// Whether the FREs repeat every [`Function::rep_size`] bytes: a table of equal PLT stubs.
    pub fn is_pc_mask(&self) -> bool {
        self.info.contains(FdeInfo::PC_MASK)
    }

    /// Bytes after which the FREs of a PC-mask function repeat.
    pub fn rep_size(&self) -> u8 {
        self.rep_size
    }

    /// Whether it is a signal frame: the PC is that of an instruction that has not been executed,
    /// so nobody should subtract 1 from it before a lookup.
    pub fn is_signal_frame(&self) -> bool {
        self.info.contains(FdeInfo::SIGNAL)
    }

    /// AArch64: whether return addresses are signed with key B rather than A.
    pub fn has_pauth_key_b(&self) -> bool {
        self.info.contains(FdeInfo::PAUTH_KEY_B)
    }

    /// Its FREs as stored.
    pub fn fres(&self) -> Fres<'a> {
        Fres::new(*self)
    }

    /// Its rows. After an FRE whose end is unknown, or that starts too early or too late, there
    /// are no more; behind any other bad row the rest follow.
    pub fn rows(&self) -> Rows<'a> {
        Rows::new(*self)
    }

    /// The row that answers for a PC this far into the function: the last that starts at or before
    /// it. None at or behind the function's end, and before the first FRE.
    pub fn lookup(&self, offset: FunctionOffset) -> Result<Option<Row>, Error> {
        if offset.0 >= self.fde.size {
            return Ok(None);
        }
        let offset = if self.is_pc_mask() { offset.0 % self.repetition()? } else { offset.0 };
        self.row_at(offset)
    }

    /// The bytes of its FREs, in version 3 behind those of its attribute. Functions may share them.
    pub fn fre_bytes(&self) -> Result<&'a [u8], Error> {
        let mut fres = self.fres();
        while fres.next().transpose()?.is_some() {}
        let start = self.fde.fre_off as usize;
        let end = fres.offset().0 - self.section.fres_offset;
        Ok(&self.section.fres[start..end])
    }

    /// The last start that an FRE may have: gas writes FREs at the very end of a function.
    pub(super) fn last_start(&self) -> Result<u32, Error> {
        if self.is_pc_mask() { self.repetition() } else { Ok(self.fde.size) }
    }

    fn repetition(&self) -> Result<u32, Error> {
        match self.rep_size {
            0 => Err(Error::RepSize { offset: self.attribute_offset() }),
            size => Ok(u32::from(size)),
        }
    }

    /// Where the info byte's structure starts: the attribute in version 3, else the FDE.
    fn attribute_offset(&self) -> SectionOffset {
        match self.section.version {
            Version::V3 => SectionOffset(self.section.fres_offset + self.fde.fre_off as usize),
            _ => self.section.fde_offset(self.index),
        }
    }
}
