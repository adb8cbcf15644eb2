//! Makes an `.eh_frame` that every reader understands.

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
    /// Absolute addresses. The section may lie anywhere, at any distance from the code. All readers except perf
    /// understand it.
    Absolute,
    /// Distances from the field, in 32 bits. The section is smaller, and must lie within 2 GiB of the code.
    PcRelative,
}

/// An FDE of an [`EhFrame`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Fde {
    /// The offset of the FDE in the section. LLVM's libunwind takes the FDE's address in `__register_frame`.
    pub offset: SectionOffset,
    /// The function's start.
    pub start: Address,
    /// Bytes of code.
    pub size: u64,
    field: SectionOffset,
}

/// A complete `.eh_frame` section: CIEs, each followed by all its FDEs, and the zero length that ends a
/// section.
///
/// libgcc requires the final zero. LLVM's libunwind requires the order, because it stops reading at an FDE if
/// its CIE is not the previous CIE.
#[derive(Clone, Debug)]
pub struct EhFrame {
    arch: Arch,
    pointers: Pointers,
    bytes: Vec<u8>,
    fdes: Vec<Fde>,
}

impl Region {
    /// Returns the region's `.eh_frame`. With [`Pointers::Absolute`] the bytes are final. With
    /// [`Pointers::PcRelative`] they are final after [`EhFrame::place`].
    ///
    /// Linux Standard Base 5.0, "Exception Frames"; DWARF 5, section 6.4.
    ///
    /// # Errors
    /// A field cannot hold its value. Examples are a function of 2 GiB or more with PC-relative pointers, and a
    /// factor of 0.
    pub fn eh_frame(&self, pointers: Pointers) -> Result<EhFrame, Error> {
        let (mut order, mut fdes) = (Vec::new(), Vec::with_capacity(self.functions.len()));
        // Write the records as if they lay at the code's address, so that distances are small.
        let records = self.commons.len() + self.functions.len();
        // Room for the fields and padding of each record, and for the zero at the end.
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
        // The letters are in gas's order.
        let letters = [
            (b'z', true),
            (b'P', personality.is_some()),
            (b'L', self.properties.lsda.is_some()),
            (b'R', true),
            (b'S', self.properties.is_signal_frame),
            (b'B', self.properties.has_key_b),
            (b'G', self.properties.is_tagged),
        ];
        let augmentation: Vec<_> =
            letters.into_iter().filter_map(|(letter, has)| has.then_some(letter)).collect();
        let mut cie = Cie::new(self.arch, self.entry)
            .with_augmentation(&augmentation)
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
    /// Returns the section with its final zero.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the FDEs in the order of their functions' addresses.
    pub fn fdes(&self) -> &[Fde] {
        &self.fdes
    }

    /// Returns the form in which the FDEs hold addresses.
    pub fn pointers(&self) -> Pointers {
        self.pointers
    }

    /// Sets the address of the section. With [`Pointers::PcRelative`] the bytes depend on this address. You can
    /// set it again.
    ///
    /// # Errors
    /// [`Error::Distance`]: a function is out of reach. Do not use the bytes then.
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

    /// Returns the section at an address, for a reader of CFI.
    pub fn section(&self, address: Address) -> Section<'_> {
        Section::new(SectionKind::EhFrame, &self.bytes, address, self.arch)
    }
}

/// Returns the distance between two addresses, for a field of 32 bits.
pub(super) fn distance(from: Address, to: Address) -> Result<i32, Error> {
    i32::try_from(to.distance_from(from)).map_err(|_| Error::Distance { from, to })
}
