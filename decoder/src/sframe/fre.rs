//! Frame row entries, as stored and as rows.

use core::iter::FusedIterator;

use cfipack_format::sframe::{
    Abi, CONTROL_CFA_SLOT, ControlWord, FdeType, FreInfo, FreType, Version, WordSize,
};
use cfipack_format::{Arch, Cfa, Endian, FunctionOffset, Register, Row, Rule, SectionOffset};

use super::{Error, Function};

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
    #[inline]
    fn read(
        bytes: &[u8],
        offset: SectionOffset,
        fre_type: FreType,
        endian: Endian,
    ) -> Result<(Self, usize), Error> {
        let truncated = Error::FreTruncated { offset };
        let width = fre_type.width();
        let (start, rest) = bytes.split_at_checked(width).ok_or(truncated)?;
        let (&info, rest) = rest.split_first().ok_or(truncated)?;
        let start = match *start {
            [a] => u32::from(a),
            [a, b] => u32::from(endian.u16([a, b])),
            [a, b, c, d] => endian.u32([a, b, c, d]),
            _ => return Err(truncated),
        };
        let info = FreInfo(info);
        let word_size = info.word_size().ok_or(Error::FreInfo { offset, value: info.0 })?;
        let count = usize::from(info.count());
        if count > Self::MAX_WORDS {
            return Err(Error::WordCount { offset, value: info.count() });
        }
        let len = count * word_size.width();
        let stored = rest.get(..len).ok_or(truncated)?;
        let mut words = [0; Self::MAX_WORDS];
        match word_size {
            WordSize::B1 => {
                for (word, &b) in words.iter_mut().zip(stored) {
                    *word = i32::from(b as i8);
                }
            }
            WordSize::B2 => {
                for (word, &b) in words.iter_mut().zip(stored.as_chunks::<2>().0) {
                    *word = i32::from(endian.u16(b) as i16);
                }
            }
            WordSize::B4 => {
                for (word, &b) in words.iter_mut().zip(stored.as_chunks::<4>().0) {
                    *word = endian.u32(b) as i32;
                }
            }
        }
        Ok((Self { offset, start: FunctionOffset(start), info, word_size, words }, width + 1 + len))
    }

    /// What it says, the header's fixed offsets filled in. `function` is the function it is of.
    ///
    /// - An info byte of 0 is the outermost frame: no CFA, return address undefined.
    /// - amd64: a return address without a rule is at CFA-8. Elsewhere it is in the link register.
    /// - A frame pointer in a register that no machine has (GNU `as` 2.47 writes number 2^29-1 for a
    ///   DWARF expression that it misread) cannot be recovered: [`Rule::Undefined`].
    #[inline]
    pub fn row(&self, function: &Function<'_>) -> Result<Row, Error> {
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
        if signed && !function.section.arch().is_aarch64() {
            return Err(self.bad_info());
        }
        let (cfa, return_address, frame_pointer) = match function.fde_type {
            FdeType::Default => self.default_rules(function)?,
            FdeType::Flex => self.flex_rules(function)?,
        };
        let fixed = |offset| if offset != 0 { Rule::Cfa(i64::from(offset)) } else { Rule::SameValue };
        let header = function.section.header();
        Ok(Row {
            start: self.start,
            cfa,
            return_address: return_address.unwrap_or_else(|| fixed(header.fixed_ra_offset)),
            frame_pointer: frame_pointer.unwrap_or_else(|| fixed(header.fixed_fp_offset)),
            signed,
        })
    }

    /// The CFA and the rules of the RA and the FP where a DEFAULT row has them.
    #[inline]
    fn default_rules(&self, function: &Function<'_>) -> Result<Rules, Error> {
        let section = &function.section;
        let fixed_ra = section.header().fixed_ra_offset != 0;
        let (cfa, ra, fp) = match *self.words() {
            [] => return Err(self.bad_info()),
            [cfa] => (cfa, None, None),
            [cfa, fp] if fixed_ra => (cfa, None, Some(fp)),
            [cfa, ra] => (cfa, Some(ra), None),
            [cfa, ra, fp] if !fixed_ra => (cfa, Some(ra), Some(fp)),
            _ => return Err(Error::WordCount { offset: self.offset, value: self.info.count() }),
        };
        let arch = section.arch();
        let register = if self.info.sp_based() { arch.stack_pointer() } else { arch.frame_pointer() };
        // binutils 2.45, version 2, s390x: an odd word is the number of a register times 2 plus 1.
        let in_register = section.version == Version::V2 && section.abi == Abi::S390x;
        let saved = |word: i32| match in_register && word & 1 != 0 {
            true => u16::try_from(word >> 1)
                .map(|number| Rule::Register { register: Register(number), offset: 0 })
                .map_err(|_| Error::Register { offset: self.offset, value: (word >> 1) as u32 }),
            false => Ok(Rule::Cfa(i64::from(word))),
        };
        Ok((
            Cfa::Register { register, offset: cfa_offset(arch, cfa) },
            ra.filter(|&word| word != 0).map(saved).transpose()?,
            fp.map(saved).transpose()?,
        ))
    }

    /// The CFA and the rules of the RA and the FP where a FLEX row has them.
    #[inline]
    fn flex_rules(&self, function: &Function<'_>) -> Result<Rules, Error> {
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
        let offset = cfa_offset(function.section.arch(), cfa.1);
        let cfa = match control.deref() {
            true => Cfa::Memory { register, offset },
            false => Cfa::Register { register, offset },
        };
        let rule = |(word, offset)| self.flex_rule(word, i64::from(offset));
        let fp = match fp.map(rule).transpose() {
            Err(Error::Register { .. }) => Some(Rule::Undefined),
            fp => fp?,
        };
        Ok((cfa, ra.map(rule).transpose()?, fp))
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

/// CFA, return address, frame pointer; `None` where the row leaves it to the header.
type Rules = (Cfa, Option<Rule>, Option<Rule>);

/// The offset that the CFA's word stands for: s390x stores `(offset - 160) / 8`, in FLEX rows too.
#[inline]
pub(super) fn cfa_offset(arch: Arch, word: i32) -> i64 {
    match arch {
        Arch::S390x => i64::from(word) * 8 + 160,
        _ => i64::from(word),
    }
}

/// The FREs of a function, as stored. After the first error there are no more.
#[derive(Clone, Debug)]
pub struct Fres<'a> {
    function: Function<'a>,
    rest: &'a [u8],
    left: u32,
    previous: u32,
}

impl<'a> Fres<'a> {
    pub(super) fn new(function: Function<'a>) -> Self {
        Self { function, rest: function.fres, left: function.num_fres(), previous: 0 }
    }

    /// Where the next FRE starts, or the last ended.
    pub(super) fn offset(&self) -> SectionOffset {
        let section = &self.function.section;
        SectionOffset(section.fres_offset + section.fres.len() - self.rest.len())
    }

    #[inline]
    fn read(&mut self) -> Result<Fre, Error> {
        let section = &self.function.section;
        let (fre, len) = Fre::read(self.rest, self.offset(), self.function.fre_type, section.endian())?;
        let (offset, value) = (fre.offset, fre.start.0);
        if value < self.previous {
            return Err(Error::StartDecreases { offset, value });
        }
        if value > self.function.last_start()? {
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
pub struct Rows<'a>(Fres<'a>);

impl<'a> Rows<'a> {
    pub(super) fn new(function: Function<'a>) -> Self {
        Self(Fres::new(function))
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let fre = self.0.next()?;
        Some(fre.and_then(|fre| fre.row(&self.0.function)))
    }
}

impl FusedIterator for Rows<'_> {}

impl Function<'_> {
    /// The FRE at `at` bytes from the first one, as a row.
    #[inline]
    pub(super) fn row_from(&self, at: usize) -> Result<Row, Error> {
        let section = &self.section;
        let offset = SectionOffset(section.fres_offset + section.fres.len() - self.fres.len() + at);
        let bytes = self.fres.get(at..).unwrap_or_default();
        Fre::read(bytes, offset, self.fre_type, section.endian())?.0.row(self)
    }
}
