//! `.eh_frame`, as every reader takes it.

use alloc::vec::Vec;

use cfipack_cfi::write::{Cie, Writer, WrittenCie};
use cfipack_cfi::{PointerEncoding, Section, SectionKind};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, SectionOffset};

use super::{Common, Error, Properties, Region};

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
        if let [common] = &self.commons[..] {
            let cie = self.cie(&mut writer, common, pointers)?;
            for number in 0..self.functions.len() {
                fdes.push(self.fde(&mut writer, &cie, number)?);
            }
        } else {
            order.extend(0..self.functions.len());
            order.sort_by_cached_key(|&number| self.functions[number].common.to_u64());
            let mut written = None;
            for &number in &order {
                let index = self.functions[number].common;
                let cie = match written {
                    Some((last, cie)) if last == index => cie,
                    _ => self.cie(&mut writer, &self.commons[index], pointers)?,
                };
                written = Some((index, cie));
                fdes.push(self.fde(&mut writer, &cie, number)?);
            }
            fdes.sort_by_cached_key(|fde| fde.start.0);
        }
        writer.terminator();
        Ok(EhFrame { arch: self.arch, pointers, bytes: writer.into_bytes(), fdes })
    }

    fn cie(&self, writer: &mut Writer, common: &Common, pointers: Pointers) -> Result<WrittenCie, Error> {
        let Properties { return_address, personality, .. } = common.properties;
        // In the order in which gas writes the letters.
        let letters = [
            (b'z', true),
            (b'P', personality.is_some()),
            (b'L', common.properties.lsda.is_some()),
            (b'R', true),
            (b'S', common.properties.is_signal_frame),
            (b'B', common.properties.has_key_b),
            (b'G', common.properties.is_tagged),
        ];
        let (mut augmentation, mut count) = ([0; 7], 0);
        for (letter, _) in letters.into_iter().filter(|(_, is_there)| *is_there) {
            augmentation[count] = letter;
            count += 1;
        }
        let mut cie = Cie::new(self.arch, &self.bytes[common.entry.clone()])
            .with_augmentation(&augmentation[..count])
            .with_alignment(common.properties.code_alignment, common.properties.data_alignment)
            .with_fde_encoding(pointers.encoding());
        cie.version = if return_address.0 <= 0xff { 1 } else { 3 };
        cie.return_address = return_address;
        cie.personality = personality;
        cie.lsda_encoding = common.properties.lsda.unwrap_or(PointerEncoding::OMITTED);
        Ok(writer.cie(&cie)?)
    }

    fn fde(&self, writer: &mut Writer, cie: &WrittenCie, number: usize) -> Result<Fde, Error> {
        let function = &self.functions[number];
        let (offset, start, size) = (writer.offset(), self.start_of(function), function.size);
        let instructions = &self.bytes[function.instructions.clone()];
        let field = writer.fde(cie, start, size, function.lsda, instructions)?;
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
