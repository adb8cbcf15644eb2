//! FDEs of the kind that nearly every linked file has, read with a few loads.

use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Key, SectionOffset};

use crate::record::Records;
use crate::{Cie, Function, Functions, Keys};

/// An FDE of a little-endian `.eh_frame` with 32-bit lengths, `DW_EH_PE_pcrel | DW_EH_PE_sdata4`
/// pointers and augmentation data.
///
/// ```text
/// 0  4  length of what follows
/// 4  4  distance from here back to the CIE, never 0
/// 8  4  distance from here to the function's start
/// 12 4  the function's size
/// 16 1  length of the augmentation data, below 0x80
/// 17    augmentation data, then the instructions
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PlainFde {
    /// The function's name for the caller: in relocated input its first address.
    pub key: Key,
    /// Bytes of code.
    pub size: u32,
    /// Bytes of the instructions.
    pub len: u32,
    /// The offset of the FDE.
    pub at: SectionOffset,
    /// The offset of its CIE.
    pub cie: SectionOffset,
    /// Bytes of the augmentation data.
    data_len: u8,
}

impl PlainFde {
    /// The start of the augmentation data, from the FDE's start.
    const DATA: usize = 17;

    /// The offset of the field of the function's start.
    #[inline(always)]
    pub(crate) fn start_field(&self) -> SectionOffset {
        SectionOffset(self.at.0 + 8)
    }

    /// The start of the instructions in the section.
    #[inline(always)]
    fn code_at(&self) -> usize {
        self.at.0 + Self::DATA + usize::from(self.data_len)
    }

    /// The start of the next record.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        self.code_at() + self.len.to_usize()
    }

    /// The instructions, in the section that the FDE is of.
    #[inline(always)]
    pub fn code<'a>(&self, section: &'a [u8]) -> Option<Code<'a>> {
        let at = self.code_at();
        Some(Code { at, len: self.len.to_usize(), tail: section.get(at..)? })
    }
}

/// A function's own instructions, and the bytes after them.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The instructions and all that follows them in the section: reads need not look for their end.
    tail: &'a [u8],
    at: usize,
    len: usize,
}

impl<'a> Code<'a> {
    /// Bytes of the instructions.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no instructions.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The instructions and all that follows them in the section.
    #[inline(always)]
    pub fn tail(&self) -> &'a [u8] {
        self.tail
    }

    /// The start of the instructions in the section.
    #[inline(always)]
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a, K: Keys> Functions<'a, K> {
    /// The architecture of the section.
    pub fn arch(&self) -> Arch {
        self.section.arch
    }

    /// The section's bytes.
    pub fn section_bytes(&self) -> &'a [u8] {
        self.section.bytes
    }

    /// About how many records are left that have room for an FDE: CIEs are among them, a few. Exact in a
    /// small section.
    pub fn records_left(&self) -> usize {
        const LEAST: usize = 16;
        const SAMPLE: usize = 1 << 17;
        let (mut at, mut count) = (self.at, 0);
        let sample = self.end.min(self.at.saturating_add(SAMPLE));
        while let Some(next) = self.section.record_end(at).filter(|_| at < sample) {
            count += usize::from(next - at >= LEAST);
            at = next;
        }
        // No more than what follows may hold.
        let rest = self.end.saturating_sub(at);
        count + (rest as u128 * count as u128 / (at - self.at).max(1) as u128) as usize
    }

    /// The next function if its FDE is plain and its CIE has a [number](Self::set_cie_number), which comes with it;
    /// else nothing happens, and [`Iterator::next`] has what follows.
    #[inline(always)]
    pub fn next_plain(&mut self) -> Option<(PlainFde, u8)> {
        let end = self.end.min(self.next_excluded);
        let cies = &self.cies;
        self.section.take_plain_fde(&mut self.at, end, &mut self.keys, |cie| cies.number(cie))
    }

    /// Gives a number to the CIE of a function that came before. Without effect if its FDEs are not plain, and
    /// forgotten with the CIE.
    pub fn set_cie_number(&mut self, cie: SectionOffset, number: u8) {
        self.cies.set_number(cie.0, number);
    }
}

impl Records<'_> {
    /// The FDE at `at` if it is plain and starts before `end`, and what `known` gives for its CIE; after those of dead
    /// functions. `at` is where the next record starts then.
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

    /// The FDE at `at` if it is plain, its key what stands for its start, and what `known` gives for its CIE.
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
        // The size is of a signed type, and no length is that of many bytes.
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
        // Its end is an address.
        key.address().0.checked_add(size.into())?;
        let (at, cie) = (SectionOffset(at), SectionOffset(cie));
        Some((PlainFde { key, size, len, at, cie, data_len }, of_cie))
    }
}

impl<'a> Function<'a> {
    /// The function of a plain FDE, whose CIE is given.
    #[inline]
    pub(crate) fn of_plain(section: &Records<'a>, cie: &Cie<'a>, fde: &PlainFde) -> Self {
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

    /// The instructions of the FDE itself, and the bytes after them.
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

    /// After a plain FDE, one whose CIE pointer leads to the byte before the section.
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

    /// Plain or not: the end of the first is the last address there is.
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
