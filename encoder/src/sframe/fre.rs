//! A function's FREs: rows become bytes (layout: [`cfipack_format::sframe`], "frame row entry").

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::sframe::{
    Abi, Attribute, CONTROL_CFA_SLOT, ControlWord, FdeType, FreInfo, FreType, Version, WordSize,
};
use cfipack_format::{Arch, Cfa, Endian, Row, Rule};

use crate::Reason;

/// An FRE behind its start offset: the info byte and the data words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fre {
    /// The first eight bytes in a register, where one of them can be exchanged cheaply: the first is
    /// the lowest, whatever the byte order of the section.
    head: u64,
    tail: [u8; Self::MAX_SIZE - 8],
    len: u8,
}

impl Fre {
    /// The info byte and six words of four bytes; rounded up so that a copy is two vectors.
    const MAX_SIZE: usize = 32;

    /// The FRE with these bytes, which were one's; more than an FRE can have are ignored.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut padded = [0; Self::MAX_SIZE];
        padded.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        Self::from_padded(&padded, bytes.len())
    }

    fn from_padded(bytes: &[u8; Self::MAX_SIZE], len: usize) -> Self {
        let mut head = [0; 8];
        let mut tail = [0; Self::MAX_SIZE - 8];
        head.copy_from_slice(&bytes[..8]);
        tail.copy_from_slice(&bytes[8..]);
        Self { head: u64::from_le_bytes(head), tail, len: len as u8 }
    }

    /// The bytes as a number, the first in the lowest, if there are no more than fit.
    pub(super) fn as_short(&self) -> Option<u64> {
        (self.len <= 8).then_some(self.head)
    }

    /// Bytes of the info byte and the words.
    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    /// The FRE of a row in a function of the given type.
    #[inline]
    pub(super) fn new(arch: Arch, row: &Row, fde_type: FdeType) -> Result<Self, Reason> {
        if row.return_address == Rule::Undefined {
            return Ok(Self { head: FreInfo::OUTERMOST.0.into(), tail: [0; _], len: 1 });
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
        Self::from_padded(&bytes, 1 + N * size.width())
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

/// Bytes of an FRE behind its start, the info byte included.
#[inline]
pub(super) const fn fre_len(info: FreInfo) -> usize {
    match info.word_size() {
        Some(size) => 1 + ((info.count() as usize) << size as u8),
        None => 1,
    }
}

/// [`fre_len`] by the info byte.
static FRE_LENS: [u8; 256] = {
    let mut lens = [0; 256];
    let mut info = 0;
    while info < lens.len() {
        lens[info] = fre_len(FreInfo(info as u8)) as u8;
        info += 1;
    }
    lens
};

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

/// The FREs of one function, behind room for its attribute.
#[derive(Clone, Debug)]
pub(super) struct Fres {
    bytes: Vec<u8>,
    /// Where the function's room starts; blocks that are still needed lie in front of it.
    base: usize,
    /// Where the first row starts.
    first: usize,
    end: usize,
    count: u32,
    fre_type: FreType,
    last_start: u32,
    last: Fre,
    endian: Endian,
}

/// Bytes that an FRE may touch: start, info, words.
const ROOM: usize = 4 + Fre::MAX_SIZE;

/// Bytes of rows that there is room for from the start: more than nearly any function has.
pub(super) const BUFFER: usize = 1 << 16;
/// Bytes behind them that may be read or written without being needed.
pub(super) const BEYOND: usize = 64;

/// Version 3 counts an FDE's rows in 16 bits.
pub(super) const MAX_ROWS: u32 = u16::MAX as u32;

impl Fres {
    pub(super) fn new(endian: Endian) -> Self {
        let last = Fre { head: 0, tail: [0; _], len: 0 };
        let (bytes, fre_type) = (vec![0; BUFFER + BEYOND], FreType::Addr1);
        Self {
            bytes,
            base: 0,
            first: Attribute::SIZE,
            end: Attribute::SIZE,
            count: 0,
            fre_type,
            last_start: 0,
            last,
            endian,
        }
    }

    /// Begins a function whose starts fit `fre_type`.
    #[inline]
    pub(super) fn begin(&mut self, fre_type: FreType) {
        (self.first, self.end) = (self.base + Attribute::SIZE, self.base + Attribute::SIZE);
        self.count = 0;
        self.fre_type = fre_type;
        self.last_start = 0;
        self.last.len = 0;
    }

    /// Takes the rows of a function at once, unless they are too many: their starts and their FREs, of up
    /// to eight bytes, the first of which is a number's lowest.
    #[inline(always)]
    pub(super) fn take(&mut self, starts: &[u32], fres: &[u64]) -> Option<()> {
        let fre_type = FreType::for_start(*starts.last()?);
        self.begin(fre_type);
        self.end = match fre_type {
            FreType::Addr1 => self.write_rows::<1>(starts, fres)?,
            FreType::Addr2 => self.write_rows::<2>(starts, fres)?,
            FreType::Addr4 => self.write_rows::<4>(starts, fres)?,
        };
        self.count = starts.len() as u32;
        Some(())
    }

    /// Writes rows whose starts have `WIDTH` bytes. Returns where they end.
    #[inline(always)]
    fn write_rows<const WIDTH: usize>(&mut self, starts: &[u32], fres: &[u64]) -> Option<usize> {
        let buffer: &mut [u8; BUFFER + BEYOND] = self.bytes.first_chunk_mut()?;
        let mut end = self.first;
        if end + starts.len() * 12 > BUFFER {
            return None;
        }
        for (start, fre) in starts.iter().zip(fres) {
            let room = &mut buffer[end % BUFFER..][..BEYOND];
            room[..4].copy_from_slice(&start.to_le_bytes());
            room[WIDTH..WIDTH + 8].copy_from_slice(&fre.to_le_bytes());
            end += WIDTH + usize::from(FRE_LENS[usize::from(*fre as u8)]);
        }
        Some(end)
    }

    /// Where the bytes lie in this program's memory.
    pub(super) fn address(&self) -> usize {
        self.bytes.as_ptr().addr()
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the last row has these very bytes.
    #[inline]
    pub(super) fn repeats(&self, fre: &Fre) -> bool {
        self.last == *fre
    }

    /// Appends a row; `start` fits the FRE type.
    pub(super) fn push(&mut self, start: u32, fre: &Fre) {
        self.grow_to(self.end + ROOM);
        let width = self.fre_type.width();
        let start_bytes = match self.endian {
            Endian::Little => start.to_le_bytes(),
            Endian::Big => (start << (32 - 8 * width)).to_be_bytes(),
        };
        let room = &mut self.bytes[self.end..][..ROOM];
        room[..4].copy_from_slice(&start_bytes);
        room[width..width + 8].copy_from_slice(&fre.head.to_le_bytes());
        room[width + 8..width + Fre::MAX_SIZE].copy_from_slice(&fre.tail);
        self.end += width + usize::from(fre.len);
        self.count += 1;
        self.last_start = start;
        self.last = *fre;
    }

    /// Makes room for rows up to `end`.
    #[inline]
    fn grow_to(&mut self, end: usize) {
        if self.bytes.len() < end + BEYOND {
            self.bytes.resize((end + BEYOND).next_power_of_two(), 0);
        }
    }

    /// Rewrites the starts with the narrowest type that holds them all.
    #[inline]
    pub(super) fn narrow(&mut self) {
        let narrowest = FreType::for_start(self.last_start);
        if narrowest != self.fre_type {
            self.narrow_to(narrowest);
        }
    }

    /// Writes the rows anew, behind where they are.
    #[cold]
    fn narrow_to(&mut self, narrowest: FreType) {
        let (wide, width) = (self.fre_type.width(), narrowest.width());
        let first = self.end + Attribute::SIZE;
        self.grow_to(first + (self.end - self.first) + ROOM);
        let (mut from, mut to) = (self.first, first);
        let mut row = [0; ROOM];
        while from < self.end {
            row.copy_from_slice(&self.bytes[from..from + ROOM]);
            let start = if self.endian == Endian::Little { 0 } else { wide - width };
            let len = fre_len(FreInfo(row[wide]));
            let room = &mut self.bytes[to..to + ROOM];
            room[..width].copy_from_slice(&row[start..start + width]);
            room[width..][..Fre::MAX_SIZE].copy_from_slice(&row[wide..][..Fre::MAX_SIZE]);
            from += wide + len;
            to += width + len;
        }
        (self.first, self.end) = (first, to);
        self.fre_type = narrowest;
    }

    pub(super) fn fre_type(&self) -> FreType {
        self.fre_type
    }

    /// Puts version 3's attribute in front of the FREs.
    #[inline(always)]
    pub(super) fn set_attribute(&mut self, attribute: &[u8; Attribute::SIZE]) {
        self.bytes[self.first - Attribute::SIZE..self.first].copy_from_slice(attribute);
    }

    /// The function's block: its FREs and, in version 3, its attribute.
    #[inline(always)]
    pub(super) fn block(&self, version: Version) -> Block {
        let attribute = if version == Version::V3 { Attribute::SIZE } else { 0 };
        let start = self.first - attribute;
        Block { start, len: self.end - start }
    }

    /// The bytes of a block and what lies behind them.
    #[inline(always)]
    pub(super) fn with_behind(&self, block: Block) -> &[u8] {
        &self.bytes[block.start..]
    }

    /// Keeps the function's block: the next function comes behind it.
    #[inline(always)]
    pub(super) fn keep(&mut self) {
        self.base = self.end;
    }

    /// Forgets the blocks that were kept.
    pub(super) fn clear(&mut self) {
        self.base = 0;
    }
}

/// Where a function's block lies in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    start: usize,
    /// Its bytes.
    pub(super) len: usize,
}
