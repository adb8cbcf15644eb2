//! Reads plain FDEs, the kind of FDE that nearly every linked file has, with a few loads.

use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Endian, Key, SectionOffset};

use crate::record::Records;
use crate::{Cie, Function, Functions, Keys, SectionKind};

/// A plain FDE. Its section is a little-endian `.eh_frame`. It has a 32-bit length, `DW_EH_PE_pcrel |
/// DW_EH_PE_sdata4` pointers, and augmentation data.
///
/// ```text
/// 0  4  length of the rest
/// 4  4  distance from here back to the CIE, never 0
/// 8  4  distance from here to the function's start
/// 12 4  the function's size
/// 16 1  length of the augmentation data, below 0x80
/// 17    augmentation data, then the instructions
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PlainFde {
    /// The key of the function. In relocated input this is its first address.
    pub key: Key,
    /// The size of the code in bytes.
    pub size: u32,
    /// The size of the instructions in bytes.
    pub len: u32,
    /// The offset of the FDE.
    pub at: SectionOffset,
    /// The size of the augmentation data in bytes.
    data_len: u8,
}

impl PlainFde {
    /// The offset of the augmentation data from the FDE's start.
    const DATA: usize = 17;

    /// Returns the offset of the field that holds the function's start.
    #[inline(always)]
    pub(crate) fn start_field(&self) -> SectionOffset {
        SectionOffset(self.at.0 + 8)
    }

    /// Returns the offset of the instructions in the section.
    #[inline(always)]
    fn code_at(&self) -> usize {
        self.at.0 + Self::DATA + usize::from(self.data_len)
    }

    /// Returns the offset of the next record.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        self.code_at() + self.len.to_usize()
    }

    /// Returns the instructions. `section` must be the bytes of the FDE's section.
    #[inline(always)]
    pub fn code<'a>(&self, section: &'a [u8]) -> Code<'a> {
        let at = self.code_at();
        Code { at, len: self.len.to_usize(), tail: section.get(at..).unwrap_or_default() }
    }
}

/// The instructions of a function, and the bytes after them.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The instructions and all bytes after them in the section. A read of a few bytes then needs no check
    /// against the end of the instructions.
    tail: &'a [u8],
    at: usize,
    len: usize,
}

impl<'a> Code<'a> {
    /// Returns the size of the instructions in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no instructions.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the instructions.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.tail.get(..self.len).unwrap_or(self.tail)
    }

    /// Returns the instructions and all bytes after them in the section.
    #[inline(always)]
    pub fn tail(&self) -> &'a [u8] {
        self.tail
    }

    /// Returns the offset of the instructions in the section.
    #[inline(always)]
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a, K: Keys> Functions<'a, K> {
    /// Returns the architecture of the section.
    pub fn arch(&self) -> Arch {
        self.section.arch
    }

    /// Returns the bytes of the section.
    pub fn section_bytes(&self) -> &'a [u8] {
        self.section.bytes
    }

    /// Returns about how many records with room for an FDE are left. This counts a few CIEs too. For a small
    /// section the number is exact.
    pub fn records_left(&self) -> usize {
        const LEAST: usize = 16;
        const SAMPLE: usize = 1 << 17;
        let (mut at, mut count) = (self.at, 0);
        let sample = self.end.min(self.at.saturating_add(SAMPLE));
        while at < sample
            && let Some(next) = self.section.record_end(at)
        {
            count += usize::from(next - at >= LEAST);
            at = next;
        }
        // The estimate assumes that the rest has records at the same density.
        let rest = self.end.saturating_sub(at);
        count + (rest as u128 * count as u128 / (at - self.at).max(1) as u128) as usize
    }

    /// Returns the next function and the number of its CIE, if the FDE is plain and the CIE has a
    /// [number](Self::set_cie_number). Otherwise returns `None`, so call [`Iterator::next`].
    ///
    /// `number_of` may return the number of a CIE with plain FDEs by the bytes of its record.
    #[inline(always)]
    pub fn next_plain(&mut self, number_of: impl Fn(&[u8]) -> Option<u8>) -> Option<(PlainFde, u8)> {
        loop {
            let (end, cies) = (self.end.min(self.next_excluded), &self.cies);
            let known = |cie| cies.number(cie);
            let next = self.section.take_plain_fde(&mut self.at, end, &mut self.keys, known);
            if next.is_some() || !self.number_next_cie(&number_of) {
                return next;
            }
        }
    }

    /// Gives a number to the CIE of a function that this iterator has returned. The number is lost when the
    /// cache drops the CIE.
    ///
    /// Returns the bytes of the CIE's record, if its FDEs can be plain. A CIE with the same bytes has the same
    /// meaning in every section of the architecture.
    pub fn set_cie_number(&mut self, cie: SectionOffset, number: u8) -> Option<&'a [u8]> {
        self.cies.set_number(cie.0, number).then(|| self.section.record_bytes(cie.0)).flatten()
    }

    /// Skips CIEs, and gives a number to the CIE of the next FDE if `number_of` knows one. Returns whether there
    /// was any of this to do.
    #[inline(never)]
    fn number_next_cie(&mut self, number_of: &impl Fn(&[u8]) -> Option<u8>) -> bool {
        let Self { section, cies, .. } = self;
        if section.kind != SectionKind::EhFrame || section.arch.endian() != Endian::Little {
            return false;
        }
        let before = self.at;
        while self.at < self.end.min(self.next_excluded)
            && let Some(cie @ [0, 0, 0, 0, ..]) = section.record_bytes(self.at)
        {
            self.at += 4 + cie.len();
        }
        if let Some(cie) = section.cie_at(self.at).filter(|&cie| cies.number(cie).is_none())
            && let Some(number) = section.record_bytes(cie).and_then(number_of)
        {
            cies.insert_plain(cie, number);
            return true;
        }
        self.at != before
    }
}

impl<'a> Records<'a> {
    /// Takes the FDE at `at` if it is plain and starts before `end`. Returns it with the value of `known` for
    /// its CIE, and moves `at` to the next record. Skips FDEs of dead functions.
    #[inline(always)]
    pub(crate) fn take_plain_fde<T, K: Keys>(
        &self,
        at: &mut usize,
        end: usize,
        keys: &mut K,
        known: impl Fn(usize) -> Option<T>,
    ) -> Option<(PlainFde, T)> {
        while *at < end {
            let (fde, of_cie) = self.plain_fde(*at, &known)?;
            if K::ARE_ADDRESSES {
                // The function's end must be an address.
                fde.key.0.checked_add(fde.size.into())?;
            }
            *at = fde.end();
            if let Some((key, limit)) = keys.key(fde.start_field(), fde.key.address()) {
                let size = limit.map_or(fde.size, |limit| fde.size.min(limit));
                return Some((PlainFde { key, size, ..fde }, of_cie));
            }
        }
        None
    }

    /// Returns the offset of the CIE of a plain FDE.
    pub(crate) fn cie_offset_of_plain(&self, fde: &PlainFde) -> SectionOffset {
        SectionOffset(self.cie_at(fde.at.0).unwrap_or_default())
    }

    /// Returns the offset of the CIE of the FDE at `at`, if both have 32-bit lengths.
    fn cie_at(&self, at: usize) -> Option<usize> {
        let &[_, pointer] = self.bytes.get(at..)?.first_chunk::<8>()?.as_chunks().0 else { return None };
        (at + 4).checked_sub(u32::from_le_bytes(pointer).to_usize())
    }

    /// Returns the bytes of the record at `at` without its length, if it has a 32-bit length.
    fn record_bytes(&self, at: usize) -> Option<&'a [u8]> {
        let (length, rest) = self.bytes.get(at..)?.split_first_chunk()?;
        let length = u32::from_le_bytes(*length);
        rest.get(..length.to_usize()).filter(|_| length >> 31 == 0)
    }

    /// Returns the FDE at `at` if it is plain, with the value of `known` for its CIE. Its key is its start.
    #[inline(always)]
    fn plain_fde<T>(&self, at: usize, known: impl Fn(usize) -> Option<T>) -> Option<(PlainFde, T)> {
        let record = self.bytes.get(at..)?;
        let (&[length, pointer, start, size], &[data_len]) =
            record.first_chunk::<{ PlainFde::DATA }>()?.as_chunks()
        else {
            return None;
        };
        let [length, pointer, start, size] = [length, pointer, start, size].map(u32::from_le_bytes);
        // The size is a signed number, and no length reaches bit 31.
        if (size | length | u32::from(data_len) << 24) >> 31 != 0 || pointer == 0 {
            return None;
        }
        let of_cie = known((at + 4).checked_sub(pointer.to_usize())?)?;
        let len = length.checked_sub(PlainFde::DATA as u32 - 4 + u32::from(data_len))?;
        if 4 + length.to_usize() > record.len() {
            return None;
        }
        let field = self.address.offset(at as i64 + 8);
        let key = Key::from(field.offset((start as i32).into()));
        Some((PlainFde { key, size, len, at: SectionOffset(at), data_len }, of_cie))
    }
}

impl<'a> Function<'a> {
    /// Returns the function of a plain FDE with this CIE.
    #[inline]
    pub(crate) fn from_plain(section: &Records<'a>, cie: &Cie<'a>, fde: &PlainFde) -> Self {
        let instructions = fde.code_at()..fde.code_at() + fde.len.to_usize();
        let data = instructions.start - usize::from(fde.data_len)..instructions.start;
        Self {
            key: fde.key,
            start: section.is_placed.then_some(fde.key.address()),
            size: fde.size.into(),
            fde: fde.at,
            start_field: fde.start_field(),
            cie: *cie,
            augmentation_data: section.bytes.get(data).unwrap_or_default(),
            instructions: section.bytes.get(instructions).unwrap_or_default(),
            section: *section,
        }
    }

    /// Returns the FDE's own instructions, and the bytes after them.
    #[inline]
    pub fn code(&self) -> Code<'a> {
        let at = self.section.offset_of(self.instructions);
        let tail = self.section.bytes.get(at..).unwrap_or_default();
        Code { at, len: self.instructions.len(), tail }
    }
}

#[cfg(test)]
mod tests {
    use cfipack_format::{Address, Arch, Register, SectionOffset};

    use crate::write::{Cie, Writer};
    use crate::{Error, Functions, Section, SectionKind};

    /// A plain FDE, then an FDE with a CIE pointer to the byte before the section.
    #[test]
    fn a_cie_in_front_of_the_section() {
        let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
        let cie = writer.cie(&Cie::new(Arch::Amd64, &[0; 7])).unwrap();
        for _ in 0..2 {
            writer.fde(&cie, Address(0x1000), 8, None, &[0; 3]).unwrap();
        }
        let mut bytes = writer.into_bytes();
        bytes[0x30] += 1;
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let mut functions = Functions::new(&section);
        assert_eq!(functions.next().unwrap().unwrap().size, 8);
        let dangling = Error::CiePointer { offset: SectionOffset(0x2c), pointer: 0x31 };
        assert_eq!(functions.next().unwrap().unwrap_err(), dangling);
        assert!(functions.next().is_none());
    }

    /// Two CIEs with different return address columns, each before its FDE. The number that the caller gives the
    /// bytes of the first CIE is found in another section, at another offset.
    #[test]
    fn a_cie_is_known_by_its_bytes() {
        let [first, second] =
            [16, 7].map(|column| Cie { return_address: Register(column), ..Cie::new(Arch::Amd64, &[0; 7]) });
        let section_of = |cies: &[&Cie<'_>]| {
            let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
            for cie in cies {
                let cie = writer.cie(cie).unwrap();
                writer.fde(&cie, Address(0x1000), 8, None, &[0; 3]).unwrap();
            }
            writer.into_bytes()
        };
        let bytes = section_of(&[&first]);
        let mut functions =
            Functions::new(&Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64));
        let cie = functions.next().unwrap().unwrap().cie;
        let known = functions.set_cie_number(cie.offset, 5).unwrap();
        let bytes = section_of(&[&second, &first]);
        let number_of = |bytes: &[u8]| (bytes == known).then_some(5);
        for kind in [SectionKind::EhFrame, SectionKind::DebugFrame] {
            let mut functions = Functions::new(&Section::new(kind, &bytes, Address(0), Arch::Amd64));
            assert!(functions.next_plain(number_of).is_none());
            if kind == SectionKind::EhFrame {
                assert_eq!(functions.next().unwrap().unwrap().cie.return_address, Register(7));
                assert_eq!(functions.next_plain(number_of).unwrap().1, 5);
                assert!(functions.next_plain(number_of).is_none() && functions.next().is_none());
            }
        }
    }

    /// A function that ends after the last address is refused, whether its FDE is plain or not.
    #[test]
    fn a_function_beyond_the_last_address() {
        let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
        let cie = writer.cie(&Cie::new(Arch::Amd64, &[0; 7])).unwrap();
        let start = Address(u64::MAX - 8);
        for size in [8, 9, u64::MAX] {
            writer.fde(&cie, start, size, None, &[0; 3]).unwrap();
        }
        let bytes = writer.into_bytes();
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let mut functions = Functions::new(&section);
        assert_eq!(functions.next().unwrap().unwrap().end(), Some(Address(u64::MAX)));
        for expected in [9, u64::MAX] {
            let error = functions.next().unwrap().unwrap_err();
            assert!(matches!(error, Error::Range { size, .. } if size == expected), "{error}");
        }
        assert!(functions.next().is_none());
    }

    #[test]
    fn no_records_are_left_behind_the_last_offset() {
        let section = Section::new(SectionKind::EhFrame, &[0; 32], Address(0), Arch::Amd64);
        let [from, to] = [usize::MAX - 1, usize::MAX].map(SectionOffset);
        assert_eq!(Functions::between(&section, from, to).records_left(), 0);
    }
}
