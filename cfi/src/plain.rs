//! Reads plain FDEs, the kind of FDE that nearly every linked file has, with a few loads.

use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Key, SectionOffset};

use crate::record::Records;
use crate::{Cie, Function, Functions, Keys};

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
    /// The offset of the FDE's CIE.
    pub cie: SectionOffset,
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
    pub fn code<'a>(&self, section: &'a [u8]) -> Option<Code<'a>> {
        let at = self.code_at();
        Some(Code { at, len: self.len.to_usize(), tail: section.get(at..)? })
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
    /// [number](Self::set_cie_number). Otherwise returns `None` and does not advance, so call
    /// [`Iterator::next`].
    #[inline(always)]
    pub fn next_plain(&mut self) -> Option<(PlainFde, u8)> {
        let end = self.end.min(self.next_excluded);
        let cies = &self.cies;
        self.section.take_plain_fde(&mut self.at, end, &mut self.keys, |cie| cies.number(cie))
    }

    /// Gives a number to the CIE of a function that this iterator has returned. This has no effect if the FDEs
    /// of the CIE are not plain. The number is lost when the cache drops the CIE.
    pub fn set_cie_number(&mut self, cie: SectionOffset, number: u8) {
        self.cies.set_number(cie.0, number);
    }
}

impl Records<'_> {
    /// Takes the FDE at `at` if it is plain and starts before `end`. Returns it with the value of `known` for
    /// its CIE, and moves `at` to the next record. Skips FDEs of dead functions.
    #[inline(always)]
    pub(crate) fn take_plain_fde<T>(
        &self,
        at: &mut usize,
        end: usize,
        keys: &mut impl Keys,
        known: impl Fn(usize) -> Option<T>,
    ) -> Option<(PlainFde, T)> {
        while *at < end {
            let (fde, of_cie) = self.plain_fde(*at, &known)?;
            *at = fde.end();
            if let Some((key, limit)) = keys.key(fde.start_field(), fde.key.address()) {
                let size = u32::try_from(limit).map_or(fde.size, |limit| fde.size.min(limit));
                return Some((PlainFde { key, size, ..fde }, of_cie));
            }
        }
        None
    }

    /// Returns the FDE at `at` if it is plain, with the value of `known` for its CIE. Its key is its start.
    #[inline(always)]
    pub(crate) fn plain_fde<T>(
        &self,
        at: usize,
        known: impl Fn(usize) -> Option<T>,
    ) -> Option<(PlainFde, T)> {
        let record = self.bytes.get(at..)?;
        let &[l0, l1, l2, l3, p0, p1, p2, p3, s0, s1, s2, s3, z0, z1, z2, z3, data_len] =
            record.first_chunk()?;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let pointer = u32::from_le_bytes([p0, p1, p2, p3]);
        let start = i32::from_le_bytes([s0, s1, s2, s3]);
        let size = u32::from_le_bytes([z0, z1, z2, z3]);
        // The size is a signed number, and no length reaches bit 31.
        if (size | length | u32::from(data_len) << 24) >> 31 != 0 || pointer == 0 {
            return None;
        }
        let cie = (at + 4).checked_sub(pointer.to_usize())?;
        let of_cie = known(cie)?;
        let end = 4 + length.to_usize();
        let len = length.checked_sub(PlainFde::DATA as u32 - 4 + u32::from(data_len))?;
        if end > record.len() {
            return None;
        }
        let field = self.address.offset(at as i64 + 8);
        let key = Key::from(field.offset(start.into()));
        // The function's end must be an address.
        key.address().0.checked_add(size.into())?;
        let (at, cie) = (SectionOffset(at), SectionOffset(cie));
        Some((PlainFde { key, size, len, at, cie, data_len }, of_cie))
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
    use cfipack_format::{Address, Arch, SectionOffset};

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
