//! FREs of flex FDEs: each rule has a control word beside its offset, so that it may name any register.

use cfipack_format::sframe::{Abi, CONTROL_CFA_SLOT, ControlWord, FreInfo, WordSize};
use cfipack_format::{Cfa, Row, Rule};

use crate::Reason;
use crate::sframe::rows::fre::{Fre, cfa_word};

/// The FRE of a row in a flex FDE.
#[inline(never)]
pub(crate) fn flex(abi: Abi, row: &Row) -> Result<Fre, Reason> {
    let arch = abi.arch();
    let mut words = FlexWords { words: [0; FreInfo::MAX_WORDS], count: 0, size: WordSize::B1 };
    let (register, offset, deref) = match row.cfa {
        Cfa::Register { register, offset } => (register, offset, false),
        Cfa::Memory { register, offset } => (register, offset, true),
        Cfa::Undefined => return Err(Reason::CfaMissing),
        Cfa::Expression => return Err(Reason::CfaExpression),
    };
    words.push_pair(ControlWord::register(register, deref), cfa_word(abi, offset)?, Reason::CfaOffset)?;
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
    Ok(Fre::pack(arch.endian(), info, words.size, &words.words[..words.count]))
}

/// The data words of a flex FRE.
struct FlexWords {
    words: [u32; FreInfo::MAX_WORDS],
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

    /// Adds the control word and the offset of a rule.
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
