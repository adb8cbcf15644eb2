//! One function: its FDE, and in version 3 its attribute.

use cfipack_format::sframe::{Attribute, Fde, FdeInfo, FdeType, FreType, Version};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, FunctionOffset, Row, SectionOffset};

use super::{Error, Fres, Rows, Section};

/// A function of a section, borrowed.
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
    /// The offset of the info byte's structure: the attribute in version 3, else the FDE.
    pub offset: SectionOffset,
}

/// Bytes after which the rows of a PC-mask function of version 1 repeat: its FREs' starts are masks, and
/// binutils 2.40 writes masks of one byte.
const MASKS_REPEAT: u16 = 256;

impl<'a> Section<'a> {
    /// The function with this number, from 0 in the order of the FDEs; `None` from
    /// [`num_functions`](Self::num_functions) on.
    ///
    /// # Errors
    /// Its FREs lie outside of their sub-section, or its FDE or attribute has a type that does not exist.
    pub fn function(&self, number: usize) -> Option<Result<Function<'a>, Error>> {
        let fde = self.fde(number)?;
        Some(self.function_of(number, fde))
    }

    pub(super) fn function_of(&self, index: usize, fde: Fde) -> Result<Function<'a>, Error> {
        Ok(Function { section: *self, index, fde, body: self.body(index, &fde)? })
    }

    #[inline(always)]
    pub(super) fn fde(&self, index: usize) -> Option<Fde> {
        let endian = self.endian();
        match self.version {
            Version::V1 => Fde::read(
                self.index.as_chunks::<{ Version::V1.fde_size() }>().0.get(index)?,
                Version::V1,
                endian,
            ),
            Version::V2 => Fde::read(
                self.index.as_chunks::<{ Version::V2.fde_size() }>().0.get(index)?,
                Version::V2,
                endian,
            ),
            Version::V3 => Fde::read(
                self.index.as_chunks::<{ Version::V3.fde_size() }>().0.get(index)?,
                Version::V3,
                endian,
            ),
        }
    }

    /// The start of the function of an FDE, in bytes from the section's start.
    #[inline]
    pub(super) fn relative_start(&self, index: usize, fde: &Fde) -> i64 {
        let field = match self.is_pc_relative() {
            true => self.index_offset + index * self.version.fde_size(),
            false => 0,
        };
        fde.start.wrapping_add(field as i64)
    }

    /// Finds the body of an FDE; its attribute or info byte is checked here.
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
        // The least FRE is a start and an info byte.
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

    /// Bytes after which the FREs of a PC-mask function repeat.
    pub(super) fn repetition(&self) -> Result<u32, Error> {
        match self.rep_size {
            0 => Err(Error::RepSize { offset: self.offset }),
            size => Ok(u32::from(size)),
        }
    }

    /// The last start that an FRE may have in a function of `size` bytes: gas writes FREs at the
    /// very end of a function.
    pub(super) fn last_start(&self, size: u32) -> Result<u32, Error> {
        if self.is_pc_mask() { self.repetition() } else { Ok(size) }
    }
}

impl<'a> Function<'a> {
    /// The place in the function index.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The first address.
    pub fn start(&self) -> Address {
        self.section.address().offset(self.section.relative_start(self.index, &self.fde))
    }

    /// The size in bytes.
    pub fn size(&self) -> u32 {
        self.fde.size
    }

    /// The FDE as stored.
    pub fn fde(&self) -> &Fde {
        &self.fde
    }

    /// Number of FREs. GNU `as` writes functions without any, where it could not describe how to unwind
    /// them: they have no row for any PC.
    pub fn num_fres(&self) -> u32 {
        self.body.num_fres
    }

    /// Width of its FREs' starts.
    pub fn fre_type(&self) -> FreType {
        self.body.fre_type
    }

    /// The kind of its FREs: DEFAULT in versions 1 and 2.
    pub fn fde_type(&self) -> FdeType {
        self.body.fde_type
    }

    /// Returns whether the FREs repeat every [`Function::rep_size`] bytes: a table of equal PLT stubs.
    pub fn is_pc_mask(&self) -> bool {
        self.body.is_pc_mask()
    }

    /// Bytes after which the FREs of a PC-mask function repeat.
    ///
    /// Version 1 does not store it. An FRE's start is a mask there, and its row answers for the offsets in the
    /// function that have all bits of it, which repeat after 256 bytes or less: the rule of the
    /// format's header in binutils 2.40. For the stubs that its `ld` describes, of 16 bytes with rows
    /// at 0 and 11, the right row answers at each instruction; with `-z ibtplt` the second
    /// instruction ends at 9, and what `ld` writes is wrong there.
    pub fn rep_size(&self) -> u16 {
        self.body.rep_size
    }

    /// Returns whether it is a signal frame: the PC is that of an instruction that has not been executed,
    /// so callers must not subtract 1 from it before a lookup. Only version 3 represents it.
    pub fn is_signal_frame(&self) -> bool {
        self.body.is_signal_frame(self.section.version())
    }

    /// The bit that means a signal frame in version 3, and nothing in the others.
    pub(super) fn has_signal_bit(&self) -> bool {
        self.body.info.contains(FdeInfo::SIGNAL)
    }

    /// AArch64: whether return addresses are signed with key B rather than A.
    pub fn has_pauth_key_b(&self) -> bool {
        self.body.info.contains(FdeInfo::PAUTH_KEY_B)
    }

    /// The FREs as stored.
    pub fn fres(&self) -> Fres<'a> {
        Fres::new(self.section, self.body, self.fde.size)
    }

    /// The rows. After an FRE whose end is unknown, or that starts too early or too late, there
    /// are no more; after any other bad row the rest follow.
    pub fn rows(&self) -> Rows<'a> {
        Rows(self.fres())
    }

    /// The row that answers for a PC this far into the function: the last that starts at or before
    /// it. None at or after the function's end, and before the first FRE.
    ///
    /// # Errors
    /// A row that starts at or before it is broken, or it is a PC-mask function that repeats after 0 bytes.
    pub fn lookup(&self, offset: FunctionOffset) -> Result<Option<Row>, Error> {
        match offset.0 < self.fde.size {
            true => self.section.row_at(&self.body, offset.0),
            false => Ok(None),
        }
    }

    /// The bytes of its FREs, in version 3 after those of its attribute. Functions may share them.
    ///
    /// # Errors
    /// One of them is broken, so that nothing determines where they end.
    pub fn fre_bytes(&self) -> Result<&'a [u8], Error> {
        let mut fres = self.fres();
        while fres.next().transpose()?.is_some() {}
        let start = self.fde.fre_off.to_usize();
        let end = fres.offset().0 - self.section.fres_offset;
        Ok(&self.section.fres[start..end])
    }
}
