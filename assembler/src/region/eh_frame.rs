//! `.eh_frame`, as every reader takes it.

use alloc::vec::Vec;

use cfipack_cfi::write::{Cie, Writer, WrittenCie};
use cfipack_cfi::{PointerEncoding, Section, SectionKind};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, SectionOffset};

use super::parts::Parts;
use super::{Error, Properties, Region};

/// The form in which FDEs hold the addresses of their functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Pointers {
    /// Addresses as they are: the section may lie anywhere, at any distance from the code. All readers but perf take it.
    Absolute,
    /// Relative to the field, in 32 bits: smaller, for a section within 2 GiB of the code.
    PcRelative,
}

/// An FDE of an [`EhFrame`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Fde {
    /// The offset of the FDE. Its address is what `__register_frame` of LLVM's libunwind takes.
    pub offset: SectionOffset,
    /// The function's start.
    pub start: Address,
    /// Bytes of code.
    pub size: u64,
    field: SectionOffset,
}

/// An `.eh_frame` section of its own: CIEs, each followed by all its FDEs, and the zero length that ends a section.
///
/// libgcc requires the zero; LLVM's libunwind stops reading a section at an FDE whose CIE is not the previous one.
#[derive(Clone, Debug)]
pub struct EhFrame {
    arch: Arch,
    pointers: Pointers,
    bytes: Vec<u8>,
    fdes: Vec<Fde>,
}

impl Region {
    /// The region's `.eh_frame`. Its bytes are final with [`Pointers::Absolute`]; with [`Pointers::PcRelative`] they
    /// are after [`EhFrame::place`].
    ///
    /// Linux Standard Base 5.0, "Exception Frames"; DWARF 5, section 6.4.
    ///
    /// # Errors
    /// A field cannot hold its value: a function of 2 GiB or more with PC-relative pointers, factors of 0.
    pub fn eh_frame(&self, pointers: Pointers) -> Result<EhFrame, Error> {
        let (mut order, mut fdes) = (Vec::new(), Vec::with_capacity(self.functions.len()));
        // Records are written as if they lay where the code lies, which leaves distances small.
        let records = self.commons.len() + self.functions.len();
        // What a record has beside its instructions, padding included, and the zero at the end.
        let bytes = Vec::with_capacity(self.bytes.len() + 48 * records + 4);
        let mut writer = Writer::after(SectionKind::EhFrame, self.arch, self.base, bytes);
        if let [_] = self.commons[..] {
            let mut written = None;
            for placed in self.placed() {
                let parts = self.parts(placed);
                let cie = written.map_or_else(|| parts.cie(&mut writer, pointers), Ok)?;
                written = Some(cie);
                fdes.push(parts.fde(&mut writer, &cie)?);
            }
        } else {
            order.extend(self.order.numbers());
            order.sort_by_cached_key(|&number| self.functions[number].common.to_u64());
            let mut written = None;
            for &number in &order {
                let placed = &self.functions[number];
                let parts = self.parts(placed);
                let cie = match written {
                    Some((last, cie)) if last == placed.common => cie,
                    _ => parts.cie(&mut writer, pointers)?,
                };
                written = Some((placed.common, cie));
                fdes.push(parts.fde(&mut writer, &cie)?);
            }
            fdes.sort_by_cached_key(|fde| fde.start.0);
        }
        writer.terminator();
        Ok(EhFrame { arch: self.arch, pointers, bytes: writer.into_bytes(), fdes })
    }
}

impl Parts<'_> {
    /// Writes the CIE.
    pub(super) fn cie(&self, writer: &mut Writer, pointers: Pointers) -> Result<WrittenCie, Error> {
        let Properties { return_address, personality, .. } = *self.properties;
        // In the order in which gas writes the letters.
        let letters = [
            (b'z', true),
            (b'P', personality.is_some()),
            (b'L', self.properties.lsda.is_some()),
            (b'R', true),
            (b'S', self.properties.is_signal_frame),
            (b'B', self.properties.has_key_b),
            (b'G', self.properties.is_tagged),
        ];
        let (mut augmentation, mut count) = ([0; 7], 0);
        for (letter, _) in letters.into_iter().filter(|(_, is_there)| *is_there) {
            augmentation[count] = letter;
            count += 1;
        }
        let mut cie = Cie::new(self.arch, self.entry)
            .with_augmentation(&augmentation[..count])
            .with_alignment(self.properties.code_alignment, self.properties.data_alignment)
            .with_fde_encoding(pointers.encoding());
        cie.version = if return_address.0 <= 0xff { 1 } else { 3 };
        cie.return_address = return_address;
        cie.personality = personality;
        cie.lsda_encoding = self.properties.lsda.unwrap_or(PointerEncoding::OMITTED);
        Ok(writer.cie(&cie)?)
    }

    /// Writes the FDE, after its CIE.
    pub(super) fn fde(&self, writer: &mut Writer, cie: &WrittenCie) -> Result<Fde, Error> {
        let Self { start, size, lsda, instructions, .. } = *self;
        let offset = writer.offset();
        let field = writer.fde(cie, start, size, lsda, instructions)?;
        Ok(Fde { offset, start, size, field })
    }
}

impl Pointers {
    fn encoding(self) -> PointerEncoding {
        match self {
            Self::Absolute => PointerEncoding::ABSOLUTE,
            Self::PcRelative => PointerEncoding::PC_RELATIVE_SIGNED_4,
        }
    }
}

impl EhFrame {
    /// The section, its final zero included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The FDEs, in the order of their functions' addresses.
    pub fn fdes(&self) -> &[Fde] {
        &self.fdes
    }

    /// The form in which it holds addresses.
    pub fn pointers(&self) -> Pointers {
        self.pointers
    }

    /// Sets the address where the section will lie, on which its bytes depend with [`Pointers::PcRelative`]. It may be
    /// set again.
    ///
    /// # Errors
    /// [`Error::Distance`]: a function is out of reach. The bytes are of no use then.
    pub fn place(&mut self, address: Address) -> Result<(), Error> {
        if self.pointers == Pointers::Absolute {
            return Ok(());
        }
        for fde in &self.fdes {
            let from = Address(address.0.wrapping_add(fde.field.0.to_u64()));
            let distance = distance(from, fde.start)?;
            let field = &mut self.bytes[fde.field.0..][..4];
            field.copy_from_slice(&self.arch.endian().put_u32(distance as u32));
        }
        Ok(())
    }

    /// The section as its reader takes it at an address.
    pub fn section(&self, address: Address) -> Section<'_> {
        Section::new(SectionKind::EhFrame, &self.bytes, address, self.arch)
    }
}

/// The distance between two addresses, in a field of 32 bits.
pub(super) fn distance(from: Address, to: Address) -> Result<i32, Error> {
    i32::try_from(to.distance_from(from)).map_err(|_| Error::Distance { from, to })
}
