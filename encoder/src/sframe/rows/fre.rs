//! Encodes rows as FREs (layout: [`cfipack_format::sframe`], "frame row entry").

use cfipack_format::sframe::{Abi, FdeType, FreInfo, Version, WordSize};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, Cfa, Endian, Row, Rule};

use crate::Reason;
use crate::sframe::rows::flex::flex;

/// An FRE after its start offset: the info byte and the data words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fre {
    /// Nearly every FRE.
    Short(ShortFre),
    Long(LongFre),
}

/// Up to seven bytes as a number. The first byte is the lowest, and the highest byte is the count of bytes. If
/// bytes are written separately and then read together, the processor waits for its store buffer; a number
/// avoids this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShortFre(u64);

/// More than seven bytes, with zeros after them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LongFre {
    bytes: [u8; Fre::MAX_SIZE],
    len: u8,
}

impl ShortFre {
    /// Differs from the FRE of every row.
    pub(crate) const NONE: Self = Self(0);

    /// Marks a row that has a long FRE. The mark has the FRE's length in bytes.
    pub(crate) fn of_long(fre: &LongFre) -> Self {
        Self(u64::from(fre.len) << 56)
    }

    /// Returns the bytes of the FRE, followed by bytes without a meaning.
    #[inline(always)]
    pub(crate) fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// Bytes of the info byte and the words.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        (self.0 >> 56).to_usize()
    }

    /// Converts it to a number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Returns this FRE of a default FDE with another offset of the CFA. Returns `None` if the words then
    /// need, or may need, another size.
    #[inline(always)]
    pub(crate) fn with_cfa_offset(self, arch: Arch, offset: i64) -> Option<Self> {
        let word = cfa_word(Abi::for_arch(arch)?, offset).ok()?;
        let info = FreInfo(self.0 as u8);
        let size = WordSize::for_signed(word).filter(|&size| info.word_size() == Some(size))?;
        let (bits, mask) = match (size, arch.endian()) {
            (WordSize::B1, _) => (u16::from(word as u8), 0xff),
            (WordSize::B2, Endian::Little) => (word as u16, 0xffff),
            (WordSize::B2, Endian::Big) => ((word as u16).swap_bytes(), 0xffff),
            (WordSize::B4, _) => return None,
        };
        (info.count() != 0).then_some(Self(self.0 & !(mask << 8) | u64::from(bits) << 8))
    }
}

impl LongFre {
    /// Returns the bytes of the FRE, with zeros after them.
    pub(crate) fn bytes(&self) -> &[u8; Fre::MAX_SIZE] {
        &self.bytes
    }

    /// Bytes of the info byte and the words.
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }
}

impl Fre {
    /// The info byte and six words of the widest size; rounded up so that a copy is two vectors.
    pub(crate) const MAX_SIZE: usize = (1 + FreInfo::MAX_WORDS * WordSize::MAX_WIDTH).next_multiple_of(16);

    /// Reads back the bytes of an FRE. Bytes after the largest FRE are ignored.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut padded = [0; Self::MAX_SIZE];
        padded.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        let len = bytes.len().min(Self::MAX_SIZE) as u8;
        match *padded.as_chunks().0 {
            [first, ..] if len <= 7 => {
                Self::Short(ShortFre(u64::from_le_bytes(first) | u64::from(len) << 56))
            }
            _ => Self::Long(LongFre { bytes: padded, len }),
        }
    }

    /// Bytes of the info byte and the words.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Short(fre) => fre.len(),
            Self::Long(fre) => fre.len(),
        }
    }

    /// Returns the FRE if it has at most seven bytes.
    pub(crate) fn as_short(&self) -> Option<ShortFre> {
        match self {
            Self::Short(fre) => Some(*fre),
            Self::Long(_) => None,
        }
    }

    /// Encodes a row for an FDE of type `fde_type`.
    #[inline(always)]
    pub(crate) fn new(arch: Arch, version: Version, row: &Row, fde_type: FdeType) -> Result<Self, Reason> {
        if matches!(row.return_address, Rule::Undefined) {
            return Ok(Self::Short(ShortFre(u64::from(FreInfo::OUTERMOST.0) | 1 << 56)));
        }
        let Some(abi) = Abi::for_arch(arch) else { return Err(Reason::Architecture) };
        match fde_type {
            FdeType::Default => Self::default(abi, version, row),
            FdeType::Flex => flex(abi, row),
        }
    }

    #[inline(always)]
    pub(crate) fn default(abi: Abi, version: Version, row: &Row) -> Result<Self, Reason> {
        let arch = abi.arch();
        let Cfa::Register { register, offset } = row.cfa else {
            return Err(cfa_needs_flex(row.cfa));
        };
        let sp_based = register == arch.stack_pointer();
        if !sp_based && register != arch.frame_pointer() {
            return Err(Reason::CfaRegister(register));
        }
        let cfa = cfa_word(abi, offset)?;
        let has_registers = abi.has_register_words(version);
        let fp = match row.frame_pointer {
            Rule::SameValue => None,
            rule => Some(saved_word(rule, has_registers).ok_or(Reason::FramePointerRule)?),
        };
        let (count, words) = if abi.fixed_ra_offset() != 0 {
            match row.return_address {
                Rule::Cfa(offset) if offset == i64::from(abi.fixed_ra_offset()) => {}
                _ => return Err(Reason::ReturnAddressRule),
            }
            (1 + u8::from(fp.is_some()), [cfa, fp.unwrap_or(0), 0])
        } else {
            match (row.return_address, fp) {
                (Rule::SameValue, None) => (1, [cfa, 0, 0]),
                // An RA word of 0 is padding.
                (Rule::SameValue, Some(fp)) if abi.pads_return_address() => (3, [cfa, 0, fp]),
                (Rule::SameValue, Some(_)) => return Err(Reason::FramePointerAlone),
                (rule, fp) => match saved_word(rule, has_registers) {
                    None | Some(0) => return Err(Reason::ReturnAddressRule),
                    Some(ra) => (2 + u8::from(fp.is_some()), [cfa, ra, fp.unwrap_or(0)]),
                },
            }
        };
        Self::signed_words(arch.endian(), sp_based, row.signed, count, words)
    }

    /// Makes an FRE of the first `count` words, in the narrowest size that holds them all. The other words are
    /// 0.
    #[inline(always)]
    fn signed_words(
        endian: Endian,
        sp_based: bool,
        signed: bool,
        count: u8,
        words: [i64; 3],
    ) -> Result<Self, Reason> {
        // The bits that differ from the sign.
        let bits = words.iter().fold(0, |bits, word| bits | (word ^ word >> 63));
        let size = match WordSize::for_signed(bits) {
            Some(size) => size,
            None => return Err(out_of_range(words)),
        };
        let info = FreInfo::new(sp_based, count, size, signed);
        match size {
            WordSize::B1 | WordSize::B2 => {}
            WordSize::B4 => {
                return Ok(Self::pack(endian, info, size, &words.map(|word| word as u32)[..count.into()]));
            }
        }
        let width = size.len_of(8);
        let mut head = u64::from(info.0);
        for (number, word) in words.into_iter().enumerate() {
            let word = match endian {
                Endian::Little => word as u32 & (0xffff >> (16 - width)),
                Endian::Big => u32::from((word as u16).swap_bytes() >> (16 - width)),
            };
            head |= u64::from(word) << (8 + number * width);
        }
        let len = 1 + size.len_of(count.into());
        Ok(Self::Short(ShortFre(head | len.to_u64() << 56)))
    }

    /// The FRE with these words, at most six.
    #[cold]
    pub(crate) fn pack(endian: Endian, info: FreInfo, size: WordSize, words: &[u32]) -> Self {
        let mut bytes = [0; Self::MAX_SIZE];
        bytes[0] = info.0;
        let (width, slots) = (size.width(), &mut bytes[1..]);
        for (slot, word) in slots.chunks_exact_mut(width).zip(words) {
            match size {
                WordSize::B1 => slot[0] = *word as u8,
                WordSize::B2 => slot.copy_from_slice(&endian.put_u16(*word as u16)),
                WordSize::B4 => slot.copy_from_slice(&endian.put_u32(*word)),
            }
        }
        Self::from_bytes(&bytes[..1 + words.len() * width])
    }
}

/// Returns the data word of a default FRE for a register that is saved on the stack or, with `has_registers`, in
/// another register. Returns `None` for any other rule.
#[inline(always)]
fn saved_word(rule: Rule, has_registers: bool) -> Option<i64> {
    match rule {
        Rule::Cfa(offset) if !has_registers || offset & 1 == 0 => Some(offset),
        Rule::Register { register, offset: 0 } if has_registers => Some(i64::from(register.0) << 1 | 1),
        _ => None,
    }
}

/// [`FreInfo::fre_len`] of an FRE of this encoder, whose word size is valid.
#[inline]
pub(crate) const fn fre_len(info: FreInfo) -> usize {
    match info.fre_len() {
        Some(len) => len,
        None => 1,
    }
}

#[cold]
fn cfa_needs_flex(cfa: Cfa) -> Reason {
    match cfa {
        Cfa::Undefined => Reason::CfaMissing,
        Cfa::Expression => Reason::CfaExpression,
        Cfa::Register { register, .. } => Reason::CfaRegister(register),
        Cfa::Memory { .. } => Reason::CfaMemory,
    }
}

/// Returns the reason why no word size holds the words: the first word that is too large.
#[cold]
fn out_of_range(words: [i64; 3]) -> Reason {
    let too_far = words.into_iter().find(|&word| WordSize::for_signed(word).is_none());
    Reason::RuleOffset(too_far.unwrap_or_default())
}

/// The CFA's data word.
#[inline(always)]
pub(crate) fn cfa_word(abi: Abi, offset: i64) -> Result<i64, Reason> {
    let word = match abi.cfa_word_unit() {
        (0, 1) => offset,
        (zero, unit) => scaled(offset, zero, unit)?,
    };
    if word == i64::from(word as i32) { Ok(word) } else { Err(Reason::CfaOffset(offset)) }
}

#[cold]
fn scaled(offset: i64, zero: i64, unit: i64) -> Result<i64, Reason> {
    match offset.checked_sub(zero) {
        Some(rest) if rest % unit == 0 => Ok(rest / unit),
        _ => Err(Reason::CfaOffset(offset)),
    }
}

#[cfg(test)]
mod tests;
