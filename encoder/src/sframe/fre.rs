//! A function's FREs: rows become bytes (layout: [`cfipack_format::sframe`], "frame row entry").

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::sframe::{
    Abi, Attribute, CONTROL_CFA_SLOT, ControlWord, FdeType, FreInfo, FreType, WordSize,
};
use cfipack_format::{Arch, Cfa, Endian, Row, Rule};

use crate::Reason;
use crate::cfi::Stretch;

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
    fn default(arch: Arch, row: &Row) -> Result<Self, Reason> {
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

/// A row's FRE but for the CFA offset, for rows in which nothing else differs.
///
/// Only for small, positive offsets, default FDEs and little-endian sections: for nearly all rows
/// there are. The offset is the word behind the info byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// Head and length for offsets up to 0x7f.
    small: (u64, u8),
    /// Head and length for offsets up to 0x7fff.
    large: (u64, u8),
}

impl Pattern {
    /// The pattern of a row whose CFA is a register plus an offset.
    pub(super) fn new(arch: Arch, row: &Row) -> Option<Self> {
        let Cfa::Register { register, .. } = row.cfa else { return None };
        if arch.endian() == Endian::Big || row.return_address == Rule::Undefined {
            return None;
        }
        let fre = |offset| Fre::default(arch, &Row { cfa: Cfa::Register { register, offset }, ..*row }).ok();
        let (small, large) = (fre(0)?, fre(0x80)?);
        let all_in_head = small.len <= 8 && large.len <= 8;
        all_in_head
            .then_some(Self { small: (small.head, small.len), large: (large.head & !0xff_ff00, large.len) })
    }

    /// Head and length of the FRE with an offset.
    #[inline(always)]
    fn head(&self, offset: i64) -> Option<(u64, u8)> {
        let (head, len) = if (offset as u64) < 0x80 { self.small } else { self.large };
        ((offset as u64) < 0x8000).then_some((head | (offset as u64) << 8, len))
    }

    /// The FRE with an offset.
    #[inline]
    pub(super) fn fre(&self, offset: i64) -> Option<Fre> {
        self.head(offset).map(|(head, len)| Fre { head, tail: [0; _], len })
    }
}

/// The FREs of one function, behind room for its attribute.
#[derive(Clone, Debug)]
pub(super) struct Fres {
    bytes: Vec<u8>,
    end: usize,
    count: u32,
    fre_type: FreType,
    last_start: u32,
    last: Fre,
    /// Rows that came up before, and their patterns.
    known: [Option<(Row, Pattern)>; 8],
    endian: Endian,
}

/// Bytes that an FRE may touch: start, info, words.
const ROOM: usize = 4 + Fre::MAX_SIZE;

/// Version 3 counts an FDE's rows in 16 bits.
pub(super) const MAX_ROWS: u32 = u16::MAX as u32;

impl Fres {
    pub(super) fn new(endian: Endian) -> Self {
        let last = Fre { head: 0, tail: [0; _], len: 0 };
        let (bytes, fre_type) = (vec![0; 256], FreType::Addr1);
        Self { bytes, end: 0, count: 0, fre_type, last_start: 0, last, known: [None; 8], endian }
    }

    /// Begins a function whose starts fit `fre_type`.
    #[inline]
    pub(super) fn begin(&mut self, fre_type: FreType) {
        self.end = Attribute::SIZE;
        self.count = 0;
        self.fre_type = fre_type;
        self.last_start = 0;
        self.last.len = 0;
    }

    /// The pattern of a row in a default FDE. Remembers those of late: functions save their
    /// registers in few ways.
    #[inline]
    pub(super) fn pattern(&mut self, arch: Arch, row: &Row) -> Option<Pattern> {
        let slot = match row.frame_pointer {
            Rule::Cfa(offset) => offset as usize / 8 % 8,
            _ => 0,
        };
        match &self.known[slot] {
            Some((known, pattern)) if known.differs_in_offset_only(row) => Some(*pattern),
            _ => {
                let pattern = Pattern::new(arch, row)?;
                self.known[slot] = Some((*row, pattern));
                Some(pattern)
            }
        }
    }

    /// Appends the rows of a stretch whose FREs are `pattern`, in a function that starts at `part`,
    /// until one needs something else.
    #[inline]
    pub(super) fn push_stretch(&mut self, pattern: &Pattern, part: u32, stretch: &mut Stretch<'_>) {
        // Locals, lest every row goes through memory.
        let width = self.fre_type.width().min(4);
        let bytes = self.bytes.as_mut_slice();
        let (mut end, mut count, mut start) = (self.end, self.count, self.last_start);
        let (mut head, mut len) = (self.last.head, self.last.len);
        while let Some(step) = stretch.next() {
            let (location, offset) = stretch.row();
            let Some((next_head, next_len)) = pattern.head(offset) else { break };
            if next_head != head && stretch.row_ends(&step) {
                let Some(room) = bytes.get_mut(end..).and_then(|room| room.first_chunk_mut::<12>()) else {
                    break;
                };
                if count == MAX_ROWS {
                    break;
                }
                start = location as u32 - part;
                room[..4].copy_from_slice(&start.to_le_bytes());
                room[width..width + 8].copy_from_slice(&next_head.to_le_bytes());
                (head, len) = (next_head, next_len);
                end += width + usize::from(len);
                count += 1;
            }
            stretch.take(step);
        }
        (self.end, self.count, self.last_start) = (end, count, start);
        self.last = Fre { head, tail: [0; _], len };
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
        if self.bytes.len() < self.end + ROOM {
            self.grow();
        }
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

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(self.bytes.len() * 2, 0);
    }

    /// Rewrites the starts with the narrowest type that holds them all.
    pub(super) fn narrow(&mut self) {
        let narrowest = FreType::for_start(self.last_start);
        if narrowest == self.fre_type {
            return;
        }
        let (wide, width) = (self.fre_type.width(), narrowest.width());
        // In place: what is written never overtakes what is read.
        let (mut from, mut to) = (Attribute::SIZE, Attribute::SIZE);
        while from < self.end {
            let start = match self.endian {
                Endian::Little => from,
                Endian::Big => from + wide - width,
            };
            let info = FreInfo(self.bytes[from + wide]);
            let words = usize::from(info.count()) * info.word_size().map_or(0, WordSize::width);
            self.bytes.copy_within(start..start + width, to);
            self.bytes.copy_within(from + wide..from + wide + 1 + words, to + width);
            from += wide + 1 + words;
            to += width + 1 + words;
        }
        self.end = to;
        self.fre_type = narrowest;
    }

    pub(super) fn fre_type(&self) -> FreType {
        self.fre_type
    }

    /// The attribute's room and the FREs.
    #[inline]
    pub(super) fn block(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.end]
    }
}
