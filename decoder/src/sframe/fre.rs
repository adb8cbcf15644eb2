//! Frame row entries, as stored and as rows.

use core::hint::select_unpredictable;
use core::iter::FusedIterator;

use cfipack_format::sframe::{
    Abi, CONTROL_CFA_SLOT, ControlWord, FdeType, FreInfo, FreType, Header, Version, WordSize,
};
use cfipack_format::{Arch, Cfa, Endian, FunctionOffset, Register, Row, Rule, SectionOffset};

use super::fde::Body;
use super::{Error, Function, Section};

/// An FRE as stored.
#[derive(Clone, Copy, Debug)]
pub struct Fre {
    /// Where it lies.
    pub offset: SectionOffset,
    /// First PC it answers for, from the function's start.
    pub start: FunctionOffset,
    /// Its info byte.
    pub info: FreInfo,
    /// Bytes of a data word.
    pub word_size: WordSize,
    words: [i32; Self::MAX_WORDS],
}

impl Fre {
    /// The most data words that an FRE has: pairs for the CFA, the RA and the FP.
    pub const MAX_WORDS: usize = 6;

    /// A start, an info byte and the words at their widest.
    const MAX_LEN: usize = 4 + 1 + 4 * Self::MAX_WORDS;

    /// The data words, sign-extended.
    #[inline]
    pub fn words(&self) -> &[i32] {
        &self.words[..usize::from(self.info.count()).min(Self::MAX_WORDS)]
    }

    /// A data word as the unsigned number that a control word is.
    #[inline]
    pub fn control(&self, word: i32) -> ControlWord {
        ControlWord(match self.word_size {
            WordSize::B1 => u32::from(word as u8),
            WordSize::B2 => u32::from(word as u16),
            WordSize::B4 => word as u32,
        })
    }

    /// Reads the FRE at the start of `bytes`, and how long it is. `offset` is its place, for errors.
    #[inline(always)]
    fn read(
        bytes: &[u8],
        offset: SectionOffset,
        fre_type: FreType,
        endian: Endian,
    ) -> Result<(Self, usize), Error> {
        let mut copy = [0; Self::MAX_LEN];
        let window = match bytes.first_chunk() {
            Some(window) => window,
            // Near the end of the sub-section.
            None => {
                copy[..bytes.len()].copy_from_slice(bytes);
                &copy
            }
        };
        let [a, b, c, d, ..] = *window;
        let start = match fre_type {
            FreType::Addr1 => u32::from(a),
            FreType::Addr2 => u32::from(endian.u16([a, b])),
            FreType::Addr4 => endian.u32([a, b, c, d]),
        };
        let head = fre_type.width() + 1;
        let info = FreInfo(window[head - 1]);
        let word_size = info.word_size().ok_or(Error::FreInfo { offset, value: info.0 })?;
        let count = usize::from(info.count());
        if count > Self::MAX_WORDS {
            return Err(Error::WordCount { offset, value: info.count() });
        }
        let len = head + (count << word_size as u8);
        if len > bytes.len() {
            return Err(Error::FreTruncated { offset });
        }
        // Every word is read in the same way, as the four bytes that hold it or start with it:
        // sizes and counts change from row to row, and a branch on them costs more.
        let unused_bits = 32 - 8 * word_size.width() as u32;
        let mut words = [0; Self::MAX_WORDS];
        let read = if count <= 3 { 3 } else { Self::MAX_WORDS };
        for (i, word) in words[..read].iter_mut().enumerate() {
            let at = head + (i << word_size as u8);
            let [a, b, c, d] = [window[at], window[at + 1], window[at + 2], window[at + 3]];
            let aligned = match endian {
                Endian::Little => u32::from_le_bytes([a, b, c, d]) << unused_bits,
                Endian::Big => u32::from_be_bytes([a, b, c, d]),
            };
            *word = aligned as i32 >> unused_bits;
        }
        Ok((Self { offset, start: FunctionOffset(start), info, word_size, words }, len))
    }

    /// What it says, the header's fixed offsets filled in. `function` is the function it is of.
    ///
    /// - An info byte of 0 is the outermost frame: no CFA, return address undefined.
    /// - amd64: a return address without a rule is at CFA-8. Elsewhere it is in the link register.
    /// - A frame pointer in a register that no machine has (GNU `as` 2.47 writes number 2^29-1 for a
    ///   DWARF expression that it misread) cannot be recovered: [`Rule::Undefined`].
    pub fn row(&self, function: &Function<'_>) -> Result<Row, Error> {
        self.decode(&function.section, function.fde_type())
    }

    #[inline(always)]
    fn decode(&self, section: &Section<'_>, fde_type: FdeType) -> Result<Row, Error> {
        if self.info == FreInfo::OUTERMOST {
            return Ok(Row {
                start: self.start,
                cfa: Cfa::Undefined,
                return_address: Rule::Undefined,
                frame_pointer: Rule::SameValue,
                signed: false,
            });
        }
        let signed = self.info.signed();
        if signed && !section.arch().is_aarch64() {
            return Err(self.bad_info());
        }
        let (cfa, return_address, frame_pointer) = match fde_type {
            FdeType::Default => self.default_rules(section)?,
            FdeType::Flex => self.flex_rules(section)?,
        };
        Ok(Row { start: self.start, cfa, return_address, frame_pointer, signed })
    }

    /// The rules of a DEFAULT row.
    #[inline(always)]
    fn default_rules(&self, section: &Section<'_>) -> Result<Rules, Error> {
        let Header { fixed_ra_offset, fixed_fp_offset, .. } = *section.header();
        let fixed_ra = fixed_ra_offset != 0;
        let (count, most) = (self.info.count(), if fixed_ra { 2 } else { 3 });
        if count == 0 {
            return Err(self.bad_info());
        }
        if count > most {
            return Err(Error::WordCount { offset: self.offset, value: count });
        }
        let [cfa, second, third, ..] = self.words;
        let (has_ra, has_fp) = (!fixed_ra && count > 1 && second != 0, count == most);
        let arch = section.arch();
        let register = match self.info.sp_based() {
            true => arch.stack_pointer(),
            false => arch.frame_pointer(),
        };
        let cfa = Cfa::Register { register, offset: cfa_offset(arch, cfa) };
        // binutils 2.45, version 2, s390x: an odd word is the number of a register times 2 plus 1.
        if section.version == Version::V2 && section.abi == Abi::S390x {
            let ra = if has_ra { self.maybe_register(second)? } else { Rule::SameValue };
            let fp = if has_fp { self.maybe_register(third)? } else { fixed(fixed_fp_offset) };
            return Ok((cfa, ra, fp));
        }
        // Whether words are there changes from row to row: offsets are chosen, not rules, so that
        // no branch is needed.
        let saved = |used, word, fixed: i8| {
            let offset = select_unpredictable(used, word, i32::from(fixed));
            if used || fixed != 0 { Rule::Cfa(i64::from(offset)) } else { Rule::SameValue }
        };
        let fp = if fixed_ra { second } else { third };
        Ok((cfa, saved(has_ra, second, fixed_ra_offset), saved(has_fp, fp, fixed_fp_offset)))
    }

    /// The rule of a version 2 word on s390x.
    fn maybe_register(&self, word: i32) -> Result<Rule, Error> {
        if word & 1 == 0 {
            return Ok(Rule::Cfa(i64::from(word)));
        }
        u16::try_from(word >> 1)
            .map(|number| Rule::Register { register: Register(number), offset: 0 })
            .map_err(|_| Error::Register { offset: self.offset, value: (word >> 1) as u32 })
    }

    /// The rules of a FLEX row.
    #[inline]
    fn flex_rules(&self, section: &Section<'_>) -> Result<Rules, Error> {
        if self.info.sp_based() {
            return Err(self.bad_info());
        }
        let (cfa, ra, fp) = match *self.words() {
            [] => return Err(self.bad_info()),
            [c, o] | [c, o, 0] => ((c, o), None, None),
            [c, o, rc, ro] => ((c, o), Some((rc, ro)), None),
            [c, o, 0, fc, fo] => ((c, o), None, Some((fc, fo))),
            [c, o, rc, ro, fc, fo] => ((c, o), Some((rc, ro)), Some((fc, fo))),
            _ => return Err(Error::WordCount { offset: self.offset, value: self.info.count() }),
        };
        let control = self.checked_control(cfa.0)?;
        if !control.is_register_based() {
            return Err(Error::ControlWord { offset: self.offset, value: control.0 });
        }
        let register = self.register(control)?;
        let offset = cfa_offset(section.arch(), cfa.1);
        let cfa = match control.deref() {
            true => Cfa::Memory { register, offset },
            false => Cfa::Register { register, offset },
        };
        let rule = |(word, offset)| self.flex_rule(word, i64::from(offset));
        let fp = match fp.map(rule).transpose() {
            Err(Error::Register { .. }) => Some(Rule::Undefined),
            fp => fp?,
        };
        let ra = ra.map(rule).transpose()?;
        let header = section.header();
        let ra = ra.unwrap_or_else(|| fixed(header.fixed_ra_offset));
        Ok((cfa, ra, fp.unwrap_or_else(|| fixed(header.fixed_fp_offset))))
    }

    #[inline]
    fn flex_rule(&self, word: i32, offset: i64) -> Result<Rule, Error> {
        let control = self.checked_control(word)?;
        if control == CONTROL_CFA_SLOT {
            return Ok(Rule::Cfa(offset));
        }
        let register = self.register(control)?;
        match control.deref() {
            true => Ok(Rule::Memory { register, offset }),
            false => Ok(Rule::Register { register, offset }),
        }
    }

    /// A control word, which is either "stored at the CFA plus the offset" or names a register.
    #[inline]
    fn checked_control(&self, word: i32) -> Result<ControlWord, Error> {
        let control = self.control(word);
        match control == CONTROL_CFA_SLOT || control.0 & 0b101 == 0b001 {
            true => Ok(control),
            false => Err(Error::ControlWord { offset: self.offset, value: control.0 }),
        }
    }

    #[inline]
    fn register(&self, control: ControlWord) -> Result<Register, Error> {
        let value = control.register_number();
        u16::try_from(value).map(Register).map_err(|_| Error::Register { offset: self.offset, value })
    }

    fn bad_info(&self) -> Error {
        Error::FreInfo { offset: self.offset, value: self.info.0 }
    }
}

/// Of the CFA, the return address, the frame pointer.
type Rules = (Cfa, Rule, Rule);

/// The offset that the CFA's word stands for: s390x stores `(offset - 160) / 8`, in FLEX rows too.
#[inline]
pub(super) fn cfa_offset(arch: Arch, word: i32) -> i64 {
    match arch {
        Arch::S390x => i64::from(word) * 8 + 160,
        _ => i64::from(word),
    }
}

/// The rule that an offset in the header stands for.
#[inline]
fn fixed(offset: i8) -> Rule {
    if offset != 0 { Rule::Cfa(i64::from(offset)) } else { Rule::SameValue }
}

/// The FREs of a function, as stored. After the first error there are no more.
#[derive(Clone, Debug)]
pub struct Fres<'a> {
    section: Section<'a>,
    body: Body<'a>,
    size: u32,
    rest: &'a [u8],
    left: u32,
    previous: u32,
}

impl<'a> Fres<'a> {
    /// `size` is the function's, which bounds the starts.
    pub(super) fn new(section: Section<'a>, body: Body<'a>, size: u32) -> Self {
        Self { section, body, size, rest: body.fres, left: body.num_fres, previous: 0 }
    }

    /// Where the next FRE starts, or the last ended.
    pub(super) fn offset(&self) -> SectionOffset {
        SectionOffset(self.section.fres_offset + self.section.fres.len() - self.rest.len())
    }

    #[inline]
    fn read(&mut self) -> Result<Fre, Error> {
        let (fre, len) = Fre::read(self.rest, self.offset(), self.body.fre_type, self.section.endian())?;
        let (offset, value) = (fre.offset, fre.start.0);
        if value < self.previous {
            return Err(Error::StartDecreases { offset, value });
        }
        if value > self.body.last_start(self.size)? {
            return Err(Error::StartBeyondEnd { offset, value });
        }
        self.previous = value;
        self.rest = &self.rest[len..];
        Ok(fre)
    }
}

impl Iterator for Fres<'_> {
    type Item = Result<Fre, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let fre = self.read();
        if fre.is_err() {
            self.left = 0;
        }
        Some(fre)
    }
}

impl FusedIterator for Fres<'_> {}

/// The rows of a function.
#[derive(Clone, Debug)]
pub struct Rows<'a>(pub(super) Fres<'a>);

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let fre = self.0.next()?;
        Some(fre.and_then(|fre| fre.decode(&self.0.section, self.0.body.fde_type)))
    }
}

impl FusedIterator for Rows<'_> {}

impl Section<'_> {
    /// The FRE at `at` bytes from the first of a function, as a row. `None` if it is malformed: the
    /// row without an error beside it is put together in registers.
    #[inline(always)]
    pub(super) fn row_from(&self, body: &Body<'_>, at: usize) -> Option<Row> {
        let (fre, _) =
            Fre::read(body.fres.get(at..)?, SectionOffset(0), body.fre_type, self.endian()).ok()?;
        fre.decode(self, body.fde_type).ok()
    }

    /// The first error in the rows of a function that start at or before `target`, one of which is
    /// malformed.
    #[cold]
    pub(super) fn row_error(&self, body: &Body<'_>, target: u32) -> Result<Option<Row>, Error> {
        for fre in Fres::new(*self, *body, u32::MAX) {
            let fre = fre?;
            if fre.start.0 > target {
                break;
            }
            fre.decode(self, body.fde_type)?;
        }
        Ok(None)
    }
}
