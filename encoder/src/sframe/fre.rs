//! A function's FREs: rows become bytes (layout: [`cfipack_format::sframe`], "frame row entry").

use cfipack_format::sframe::{Abi, CONTROL_CFA_SLOT, ControlWord, FdeType, FreInfo, WordSize};
use cfipack_format::{Arch, Cfa, Endian, Row, Rule};

use crate::Reason;

/// An FRE behind its start offset: the info byte and the data words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fre {
    bytes: [u8; Self::MAX_SIZE],
    len: u8,
}

impl Fre {
    /// The info byte and six words of four bytes; rounded up so that a copy is two vectors.
    pub(super) const MAX_SIZE: usize = 32;

    /// No row's.
    pub(super) const NONE: Self = Self { bytes: [0; Self::MAX_SIZE], len: 0 };

    /// The FRE with these bytes, which were one's; more than an FRE can have are ignored.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut padded = [0; Self::MAX_SIZE];
        padded.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        Self { bytes: padded, len: bytes.len().min(Self::MAX_SIZE) as u8 }
    }

    /// The bytes, and zeros behind them.
    pub(super) fn bytes(&self) -> &[u8; Self::MAX_SIZE] {
        &self.bytes
    }

    /// Up to seven bytes as a number, the first in the lowest, and in the highest how many they are.
    pub(super) fn as_short(&self) -> Option<u64> {
        let mut bytes = *self.bytes.first_chunk().filter(|_| self.len <= 7)?;
        bytes[7] = self.len;
        Some(u64::from_le_bytes(bytes))
    }

    /// Bytes of the info byte and the words.
    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    /// The FRE of a row in a function of the given type.
    #[inline]
    pub(super) fn new(arch: Arch, row: &Row, fde_type: FdeType) -> Result<Self, Reason> {
        if row.return_address == Rule::Undefined {
            return Ok(Self::from_bytes(&[FreInfo::OUTERMOST.0]));
        }
        match fde_type {
            FdeType::Default => Self::default(arch, row),
            FdeType::Flex => Self::flex(arch, row),
        }
    }

    #[inline]
    pub(super) fn default(arch: Arch, row: &Row) -> Result<Self, Reason> {
        let Cfa::Register { register, offset } = row.cfa else {
            return Err(cfa_needs_flex(row.cfa));
        };
        let sp_based = register == arch.stack_pointer();
        if !sp_based && register != arch.frame_pointer() {
            return Err(Reason::CfaRegister(register));
        }
        let cfa = cfa_word(arch, offset)?;
        let fp = match row.frame_pointer {
            Rule::SameValue => None,
            Rule::Cfa(offset) => Some(offset),
            _ => return Err(Reason::FramePointerRule),
        };
        if arch == Arch::Amd64 {
            if row.return_address != Rule::Cfa(Abi::Amd64.fixed_ra_offset().into()) {
                return Err(Reason::ReturnAddressRule);
            }
            return match fp {
                None => Self::signed_words(arch.endian(), sp_based, row.signed, [cfa]),
                Some(fp) => Self::signed_words(arch.endian(), sp_based, row.signed, [cfa, fp]),
            };
        }
        let ra = match (row.return_address, fp) {
            (Rule::SameValue, None) => {
                return Self::signed_words(arch.endian(), sp_based, row.signed, [cfa]);
            }
            // An RA word of 0 is padding.
            (Rule::SameValue, Some(_)) if arch == Arch::S390x => 0,
            (Rule::SameValue, Some(_)) => return Err(Reason::FramePointerAlone),
            (Rule::Cfa(0), _) => return Err(Reason::ReturnAddressRule),
            (Rule::Cfa(offset), _) => offset,
            _ => return Err(Reason::ReturnAddressRule),
        };
        match fp {
            None => Self::signed_words(arch.endian(), sp_based, row.signed, [cfa, ra]),
            Some(fp) => Self::signed_words(arch.endian(), sp_based, row.signed, [cfa, ra, fp]),
        }
    }

    /// The FRE with these words, in the narrowest size that holds them all.
    #[inline]
    fn signed_words<const N: usize>(
        endian: Endian,
        sp_based: bool,
        signed: bool,
        words: [i64; N],
    ) -> Result<Self, Reason> {
        let mut size = WordSize::B1;
        for word in words {
            size = size.max(WordSize::for_signed(word).ok_or(Reason::RuleOffset(word))?);
        }
        let info = FreInfo::new(sp_based, N as u8, size, signed);
        Ok(Self::pack(endian, info, size, words.map(|word| word as u32)))
    }

    #[inline]
    fn pack<const N: usize>(endian: Endian, info: FreInfo, size: WordSize, words: [u32; N]) -> Self {
        let mut bytes = [0; Self::MAX_SIZE];
        bytes[0] = info.0;
        match size {
            WordSize::B1 => {
                for (slot, word) in bytes[1..].iter_mut().zip(words) {
                    *slot = word as u8;
                }
            }
            WordSize::B2 => {
                for (slot, word) in bytes[1..].chunks_exact_mut(2).zip(words) {
                    slot.copy_from_slice(&endian.put_u16(word as u16));
                }
            }
            WordSize::B4 => {
                for (slot, word) in bytes[1..].chunks_exact_mut(4).zip(words) {
                    slot.copy_from_slice(&endian.put_u32(word));
                }
            }
        }
        Self { bytes, len: (1 + N * size.width()) as u8 }
    }

    fn flex(arch: Arch, row: &Row) -> Result<Self, Reason> {
        let mut words = FlexWords { words: [0; 6], count: 0, size: WordSize::B1 };
        let (register, offset, deref) = match row.cfa {
            Cfa::Register { register, offset } => (register, offset, false),
            Cfa::Memory { register, offset } => (register, offset, true),
            Cfa::Undefined => return Err(Reason::CfaMissing),
            Cfa::Expression => return Err(Reason::CfaExpression),
        };
        words.push_pair(
            ControlWord::register(register, deref),
            cfa_word(arch, offset)?,
            Reason::CfaOffset,
        )?;
        let fixed = Row::at_entry(arch).return_address;
        let has_fp = row.frame_pointer != Rule::SameValue;
        if row.return_address != fixed {
            words.push_rule(row.return_address, Reason::ReturnAddressRule)?;
        } else if has_fp {
            words.push(0, WordSize::B1);
        }
        if has_fp {
            words.push_rule(row.frame_pointer, Reason::FramePointerRule)?;
        }
        let info = FreInfo::new(false, words.count as u8, words.size, row.signed);
        let mut fre = Self::pack(arch.endian(), info, words.size, words.words);
        // `pack` has written six words; those behind the count are zero.
        fre.len = (1 + words.count * words.size.width()) as u8;
        Ok(fre)
    }
}

/// [`FreInfo::fre_len`] of an FRE that was made here, whose word size is valid.
#[inline]
pub(super) const fn fre_len(info: FreInfo) -> usize {
    match info.fre_len() {
        Some(len) => len,
        None => 1,
    }
}

fn cfa_needs_flex(cfa: Cfa) -> Reason {
    match cfa {
        Cfa::Undefined => Reason::CfaMissing,
        Cfa::Expression => Reason::CfaExpression,
        Cfa::Register { register, .. } => Reason::CfaRegister(register),
        Cfa::Memory { .. } => Reason::CfaMemory,
    }
}

/// The CFA's data word: its offset, on s390x counted from 160 in units of 8 bytes.
#[inline]
fn cfa_word(arch: Arch, offset: i64) -> Result<i64, Reason> {
    let word = if arch == Arch::S390x {
        if offset % 8 != 0 {
            return Err(Reason::CfaOffset(offset));
        }
        offset.checked_sub(160).ok_or(Reason::CfaOffset(offset))? / 8
    } else {
        offset
    };
    if word == i64::from(word as i32) { Ok(word) } else { Err(Reason::CfaOffset(offset)) }
}

/// The data words of a flex FRE.
struct FlexWords {
    words: [u32; 6],
    count: usize,
    size: WordSize,
}

impl FlexWords {
    fn push(&mut self, word: u32, size: WordSize) {
        self.words[self.count] = word;
        self.count += 1;
        self.size = self.size.max(size);
    }

    fn push_pair(
        &mut self,
        control: ControlWord,
        offset: i64,
        too_far: fn(i64) -> Reason,
    ) -> Result<(), Reason> {
        let size = WordSize::for_signed(offset).ok_or(too_far(offset))?;
        self.push(control.0, WordSize::for_unsigned(control.0));
        self.push(offset as u32, size);
        Ok(())
    }

    /// The pair for a rule.
    fn push_rule(&mut self, rule: Rule, cannot: Reason) -> Result<(), Reason> {
        let (control, offset) = match rule {
            Rule::Cfa(offset) => (CONTROL_CFA_SLOT, offset),
            Rule::Register { register, offset } => (ControlWord::register(register, false), offset),
            Rule::Memory { register, offset } => (ControlWord::register(register, true), offset),
            Rule::SameValue | Rule::ValCfa(_) | Rule::Undefined | Rule::Expression => return Err(cannot),
        };
        self.push_pair(control, offset, Reason::RuleOffset)
    }
}
