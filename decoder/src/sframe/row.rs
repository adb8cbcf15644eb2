//! Decodes frame row entries into rows.

use core::hint::select_unpredictable;

use cfipack_format::sframe::{Abi, CONTROL_CFA_SLOT, ControlWord, FdeType, FreInfo, FreType, Header};
use cfipack_format::{Cfa, Register, Row, Rule, SectionOffset};

use super::fde::Body;
use super::{Error, Fre, Fres, Function, Section};

impl Fre {
    /// Decodes this FRE into a row, and fills in the fixed offsets of the header. `function` is the function
    /// that the FRE belongs to.
    ///
    /// - An info byte of 0 is the outermost frame: no CFA, and the return address is undefined.
    /// - On amd64, a return address without a rule is at CFA-8. On other architectures it is in the link
    ///   register.
    /// - A frame pointer in a register that no architecture has is [`Rule::Undefined`]: it cannot be recovered.
    ///   GNU `as` 2.47 writes register number 2^29-1 for a DWARF expression that it misreads.
    ///
    /// # Errors
    /// The info byte, the number of words, or a control word has a value that the format does not define.
    #[inline]
    pub fn row(&self, function: &Function<'_>) -> Result<Row, Error> {
        self.decode(&function.section, function.fde_type())
    }

    #[inline(always)]
    pub(super) fn decode(&self, section: &Section<'_>, fde_type: FdeType) -> Result<Row, Error> {
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
            FdeType::Default => {
                self.check_default(section)?;
                if has_registers(section) {
                    self.default_rules_with_registers(section)?
                } else {
                    self.default_rules(section)
                }
            }
            FdeType::Flex => self.flex_rules(section)?,
        };
        Ok(Row { start: self.start, cfa, return_address, frame_pointer, signed })
    }

    /// Checks whether a DEFAULT row may have this number of words.
    #[inline(always)]
    fn check_default(&self, section: &Section<'_>) -> Result<(), Error> {
        let most = if section.header().fixed_ra_offset != 0 { 2 } else { 3 };
        match self.info.count() {
            0 => Err(self.bad_info()),
            count if count > most => Err(Error::WordCount { offset: self.offset, value: count }),
            _ => Ok(()),
        }
    }

    /// Decodes the rules of a DEFAULT row. The number of words has been checked.
    ///
    /// The number of words changes from row to row, so this function selects offsets instead of rules: that
    /// needs no branch.
    #[inline(always)]
    fn default_rules(&self, section: &Section<'_>) -> Rules {
        let Header { fixed_ra_offset, fixed_fp_offset, .. } = *section.header();
        let (count, [_, second, third, ..]) = (self.info.count(), self.words);
        let saved = |used, word, fixed: i8| {
            let offset = select_unpredictable(used, word, i32::from(fixed));
            if used || fixed != 0 { Rule::Cfa(i64::from(offset)) } else { Rule::SameValue }
        };
        let cfa = self.default_cfa(section);
        match fixed_ra_offset {
            0 => (cfa, saved(count > 1 && second != 0, second, 0), saved(count == 3, third, fixed_fp_offset)),
            ra => (cfa, Rule::Cfa(i64::from(ra)), saved(count == 2, second, fixed_fp_offset)),
        }
    }

    /// Decodes DEFAULT rules whose words may be registers.
    fn default_rules_with_registers(&self, section: &Section<'_>) -> Result<Rules, Error> {
        let (count, [_, second, third, ..]) = (self.info.count(), self.words);
        let ra = if count > 1 && second != 0 { self.maybe_register(second)? } else { Rule::SameValue };
        let fp = match count {
            3 => self.maybe_register(third)?,
            _ => fixed(section.header().fixed_fp_offset),
        };
        Ok((self.default_cfa(section), ra, fp))
    }

    #[inline(always)]
    fn default_cfa(&self, section: &Section<'_>) -> Cfa {
        let arch = section.arch();
        let (sp, fp) = (arch.stack_pointer(), arch.frame_pointer());
        let register = select_unpredictable(self.info.sp_based(), sp, fp);
        Cfa::Register { register, offset: cfa_offset(section.abi, self.words[0]) }
    }

    /// Decodes a version 2 word on s390x, which is an offset or a register.
    fn maybe_register(&self, word: i32) -> Result<Rule, Error> {
        if word & 1 == 0 {
            return Ok(Rule::Cfa(i64::from(word)));
        }
        match u16::try_from(word >> 1) {
            Ok(number) => Ok(Rule::Register { register: Register(number), offset: 0 }),
            Err(_) => Err(Error::Register { offset: self.offset, value: (word >> 1) as u32 }),
        }
    }

    /// Decodes the rules of a FLEX row.
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
        let offset = cfa_offset(section.abi, cfa.1);
        let cfa = if control.deref() {
            Cfa::Memory { register, offset }
        } else {
            Cfa::Register { register, offset }
        };
        let header = section.header();
        let fp = match fp {
            None => fixed(header.fixed_fp_offset),
            Some((word, offset)) => match self.flex_rule(word, offset.into()) {
                Err(Error::Register { .. }) => Rule::Undefined,
                rule => rule?,
            },
        };
        let ra = match ra {
            None => fixed(header.fixed_ra_offset),
            Some((word, offset)) => self.flex_rule(word, offset.into())?,
        };
        Ok((cfa, ra, fp))
    }

    #[inline]
    fn flex_rule(&self, word: i32, offset: i64) -> Result<Rule, Error> {
        let control = self.checked_control(word)?;
        if control == CONTROL_CFA_SLOT {
            return Ok(Rule::Cfa(offset));
        }
        let register = self.register(control)?;
        if control.deref() {
            return Ok(Rule::Memory { register, offset });
        }
        Ok(Rule::Register { register, offset })
    }

    /// Returns a valid control word: "stored at the CFA plus the offset", or a word that names a register.
    #[inline]
    fn checked_control(&self, word: i32) -> Result<ControlWord, Error> {
        let control = self.control(word);
        if control == CONTROL_CFA_SLOT || control.0 & 0b101 == 0b001 {
            return Ok(control);
        }
        Err(Error::ControlWord { offset: self.offset, value: control.0 })
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

/// The rules of the CFA, the return address and the frame pointer.
type Rules = (Cfa, Rule, Rule);

/// Returns whether words of DEFAULT rows can be registers.
#[inline]
pub(super) fn has_registers(section: &Section<'_>) -> bool {
    section.abi.has_register_words(section.version)
}

/// Returns the CFA's offset for its word, also in FLEX rows.
#[inline]
pub(super) fn cfa_offset(abi: Abi, word: i32) -> i64 {
    match abi.cfa_word_unit() {
        (0, 1) => i64::from(word),
        (zero, unit) => i64::from(word) * unit + zero,
    }
}

/// Returns the rule for a fixed offset in the header.
#[inline]
fn fixed(offset: i8) -> Rule {
    if offset != 0 { Rule::Cfa(i64::from(offset)) } else { Rule::SameValue }
}

impl Section<'_> {
    /// Decodes the FRE at the start of `fre`, for a DEFAULT function. This is the common case. It takes few
    /// instructions, and no branch depends on the FRE, so a CPU can run lookups of different PCs at the same
    /// time. `None` means that the caller must use [`Section::any_row`].
    #[inline(always)]
    pub(super) fn default_row(&self, fre: &[u8], fre_type: FreType) -> Option<Row> {
        let fre = Fre::read_short(fre, fre_type, self.endian())?;
        if fre.check_default(self).is_err() || has_registers(self) {
            return None;
        }
        let signed = fre.info.signed();
        if signed && !self.arch().is_aarch64() {
            return None;
        }
        let (cfa, return_address, frame_pointer) = fre.default_rules(self);
        Some(Row { start: fre.start, cfa, return_address, frame_pointer, signed })
    }

    /// Decodes any FRE. It lies `at` bytes after the function's first FRE, and is the last FRE that starts at
    /// or before `target`.
    #[cold]
    #[inline(never)]
    pub(super) fn any_row(&self, body: &Body<'_>, at: usize, target: u32) -> Result<Option<Row>, Error> {
        let bytes = body.fres.get(at..).unwrap_or_default();
        let fre = Fre::read(bytes, SectionOffset(0), body.fre_type, self.endian());
        match fre.and_then(|(fre, _)| fre.decode(self, body.fde_type)) {
            Ok(row) => Ok(Some(row)),
            // The offset of this error is 0, and an earlier FRE may be malformed too.
            Err(_) => self.row_error(body, target),
        }
    }

    /// Returns the first error among the rows of a function that start at or before `target`.
    #[cold]
    #[inline(never)]
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
