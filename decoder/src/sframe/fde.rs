//! One function: its FDE, and in version 3 its attribute.

use cfipack_format::sframe::{Attribute, Fde, FdeInfo, FdeType, FreType, Version};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, FunctionOffset, Row, SectionOffset};

use super::{Error, Fres, Rows, Section};

/// A function of a [`Section`]. It borrows the section's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    pub(super) section: Section<'a>,
    index: usize,
    fde: Fde,
    body: Body<'a>,
}

/// The body of an FDE: its FREs and how to read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    /// The bytes from the function's first FRE to the end of the FRE sub-section.
    pub fres: &'a [u8],
    pub num_fres: u32,
    pub info: FdeInfo,
    pub rep_size: u16,
    pub fre_type: FreType,
    pub fde_type: FdeType,
    /// The offset of the structure that holds the info byte: the attribute in version 3, otherwise the FDE.
    pub offset: SectionOffset,
}

/// In version 1, the rows of a PC-mask function repeat after this many bytes. The starts of its FREs are masks,
/// and binutils 2.40 writes masks of one byte.
const MASKS_REPEAT: u16 = 256;

impl<'a> Section<'a> {
    /// Returns the function with this number, counted from 0 in the order of the FDEs, or `None` if `number` is
    /// not below [`num_functions`](Self::num_functions).
    ///
    /// # Errors
    /// The function's FREs lie outside the FRE sub-section, or its FDE or attribute has an unknown type.
    pub fn function(&self, number: usize) -> Option<Result<Function<'a>, Error>> {
        let fde = self.fde(number)?;
        Some(self.function_of(number, fde))
    }

    pub(super) fn function_of(&self, index: usize, fde: Fde) -> Result<Function<'a>, Error> {
        Ok(Function { section: *self, index, fde, body: self.body(index, &fde)? })
    }

    #[inline(always)]
    pub(super) fn fde(&self, index: usize) -> Option<Fde> {
        const V1: usize = Version::V1.fde_size();
        const V2: usize = Version::V2.fde_size();
        const V3: usize = Version::V3.fde_size();
        let (fdes, endian) = (self.index, self.endian());
        match self.version {
            Version::V1 => Fde::read(fdes.as_chunks::<V1>().0.get(index)?, Version::V1, endian),
            Version::V2 => Fde::read(fdes.as_chunks::<V2>().0.get(index)?, Version::V2, endian),
            Version::V3 => Fde::read(fdes.as_chunks::<V3>().0.get(index)?, Version::V3, endian),
        }
    }

    /// Returns the start of an FDE's function in bytes from the section's start.
    #[inline]
    pub(super) fn relative_start(&self, index: usize, fde: &Fde) -> i64 {
        let field =
            if self.is_pc_relative() { self.index_offset + index * self.version.fde_size() } else { 0 };
        fde.start.wrapping_add(field as i64)
    }

    /// Finds the body of an FDE, and checks the attribute or the info byte.
    #[inline(always)]
    pub(super) fn body(&self, index: usize, fde: &Fde) -> Result<Body<'a>, Error> {
        let fde_offset = self.fde_offset(index);
        let out_of_bounds = Error::FreOffset { offset: fde_offset, value: fde.fre_off };
        let at = usize::try_from(fde.fre_off).map_err(|_| out_of_bounds)?;
        let rest = self.fres.get(at..).ok_or(out_of_bounds)?;
        let (fres, num_fres, info, info2, rep_size, offset) = if self.version.has_attributes() {
            let (attribute, fres) = rest.split_first_chunk().ok_or(out_of_bounds)?;
            let Attribute { num_fres, info, info2, rep_size } = Attribute::read(attribute, self.endian());
            (fres, u32::from(num_fres), info, info2, rep_size, SectionOffset(self.fres_offset + at))
        } else {
            (rest, fde.num_fres, fde.info, 0, fde.rep_size, fde_offset)
        };
        let fre_type = info.fre_type().ok_or(Error::FreType { offset, value: info.bits() })?;
        let fde_type = FdeType::from_info2(info2).ok_or(Error::FdeType { offset, value: info2 })?;
        let is_given = self.version.has_repetition_size() || !info.contains(FdeInfo::PC_MASK);
        let rep_size = if is_given { u16::from(rep_size) } else { MASKS_REPEAT };
        // The smallest FRE has a start and an info byte.
        if u64::from(num_fres) * (fre_type.width().to_u64() + 1) > fres.len().to_u64() {
            return Err(Error::FreCount { offset, value: num_fres });
        }
        Ok(Body { fres, num_fres, info, rep_size, fre_type, fde_type, offset })
    }
}

impl Body<'_> {
    pub(super) fn is_pc_mask(&self) -> bool {
        self.info.contains(FdeInfo::PC_MASK)
    }

    pub(super) fn is_signal_frame(&self, version: Version) -> bool {
        version.has_signal_frames() && self.info.contains(FdeInfo::SIGNAL)
    }

    /// Returns the number of bytes after which the FREs of a PC-mask function repeat.
    pub(super) fn repetition(&self) -> Result<u32, Error> {
        match self.rep_size {
            0 => Err(Error::RepSize { offset: self.offset }),
            size => Ok(u32::from(size)),
        }
    }

    /// Returns the last start that an FRE may have in a function of `size` bytes. GNU `as` writes FREs that
    /// start at the very end of a function.
    pub(super) fn last_start(&self, size: u32) -> Result<u32, Error> {
        if self.is_pc_mask() { self.repetition() } else { Ok(size) }
    }
}

impl<'a> Function<'a> {
    /// Returns the place in the function index, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the first address.
    pub fn start(&self) -> Address {
        self.section.address().offset(self.section.relative_start(self.index, &self.fde))
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u32 {
        self.fde.size
    }

    /// Returns the FDE as stored.
    pub fn fde(&self) -> &Fde {
        &self.fde
    }

    /// Returns the number of FREs. It is 0 if GNU `as` could not describe how to unwind the function; then no
    /// PC of the function has a row.
    pub fn num_fres(&self) -> u32 {
        self.body.num_fres
    }

    /// Returns the width of the starts of the FREs.
    pub fn fre_type(&self) -> FreType {
        self.body.fre_type
    }

    /// Returns the kind of the FREs. In versions 1 and 2 it is always DEFAULT.
    pub fn fde_type(&self) -> FdeType {
        self.body.fde_type
    }

    /// Returns whether the FREs repeat every [`Function::rep_size`] bytes, for a table of equal PLT stubs.
    pub fn is_pc_mask(&self) -> bool {
        self.body.is_pc_mask()
    }

    /// Returns the number of bytes after which the FREs of a PC-mask function repeat.
    ///
    /// Version 1 does not store this number. There the start of an FRE is a mask, and the row of the FRE covers
    /// each offset in the function that has all bits of the mask. So the rows repeat after at most 256 bytes.
    /// This is the rule in the format's header in binutils 2.40. For the 16-byte stubs that its `ld` describes
    /// with rows at 0 and 11, each instruction gets the right row. With `-z ibtplt`, the second instruction
    /// ends at 9, and the rows that `ld` writes are wrong there.
    pub fn rep_size(&self) -> u16 {
        self.body.rep_size
    }

    /// Fails for a PC-mask function that repeats after 0 bytes, also if it has no FRE.
    pub(super) fn check_repetition(&self) -> Result<(), Error> {
        if self.body.is_pc_mask() { self.body.repetition().map(drop) } else { Ok(()) }
    }

    /// Returns whether the function is a signal frame. In a signal frame the PC belongs to an instruction that
    /// has not been executed, so do not subtract 1 from the PC before you look it up. Only version 3 can mark
    /// signal frames.
    pub fn is_signal_frame(&self) -> bool {
        self.body.is_signal_frame(self.section.version())
    }

    /// Returns the bit that marks a signal frame in version 3 and has no meaning in the other versions.
    pub(super) fn has_signal_bit(&self) -> bool {
        self.body.info.contains(FdeInfo::SIGNAL)
    }

    /// AArch64: returns whether return addresses are signed with key B instead of key A.
    pub fn has_pauth_key_b(&self) -> bool {
        self.body.info.contains(FdeInfo::PAUTH_KEY_B)
    }

    /// Returns the FREs as stored.
    pub fn fres(&self) -> Fres<'a> {
        Fres::new(self.section, self.body, self.fde.size)
    }

    /// Returns the rows.
    ///
    /// A bad row is an `Err` item, and the iterator goes on after it. It ends after an FRE that is cut off,
    /// that has an unknown length, or that starts out of order or beyond the end of the function.
    pub fn rows(&self) -> Rows<'a> {
        Rows(self.fres())
    }

    /// Returns the row for the PC at `offset` bytes from the function's start: the last row that starts at or
    /// before `offset`. Returns `None` from the function's end on, and before the first FRE.
    ///
    /// # Errors
    /// A row that starts at or before `offset` is malformed, or the function is a PC-mask function that repeats
    /// after 0 bytes.
    pub fn lookup(&self, offset: FunctionOffset) -> Result<Option<Row>, Error> {
        if offset.0 >= self.fde.size {
            return Ok(None);
        }
        self.section.row_at(&self.body, offset.0)
    }

    /// Returns the bytes of the FREs. In version 3, the bytes of the attribute come first. Functions can share
    /// these bytes.
    ///
    /// # Errors
    /// An FRE is malformed, so that the end of the FREs is not known.
    pub fn fre_bytes(&self) -> Result<&'a [u8], Error> {
        let mut fres = self.fres();
        while fres.next().transpose()?.is_some() {}
        let start = self.fde.fre_off.to_usize();
        let end = fres.offset().0 - self.section.fres_offset;
        Ok(&self.section.fres[start..end])
    }
}
