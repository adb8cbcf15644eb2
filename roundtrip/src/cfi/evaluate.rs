//! Evaluates functions with gimli, row by row.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use cfipack_format::cfi::Section;
use cfipack_format::{Address, Register, Rule};
use gimli::{
    BaseAddresses, CallFrameInstruction, Endianity, Pointer, UnwindContext, UnwindOffset, UnwindSection,
    UnwindTableRow,
};

use super::answer::{Answer, Flags};
use super::functions::{Function, Functions};
use super::source::{About, Cie, Fde, Reader, Visit};
use super::storage::Deep;
use super::translate::Translate;
use super::unevaluated::Unevaluated;

/// Evaluates functions, one after the other, with the CIEs and the memory it already has.
pub struct Evaluator<'f> {
    sections: Vec<Box<dyn Evaluate + 'f>>,
    context: UnwindContext<usize, Deep>,
}

impl fmt::Debug for Evaluator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("sections", &self.sections.len()).finish_non_exhaustive()
    }
}

/// What a function's FDE and CIE contain for exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Handler {
    /// The personality, or, as nearly all have it, the pointer to it.
    pub personality: Option<Address>,
    /// The language-specific data area.
    pub lsda: Option<Address>,
}

/// What takes the answers for a function's ranges of PCs.
type Sink<'s> = &'s mut dyn FnMut(Range<u64>, &Answer, Flags);

/// The same, with the rules of all other registers.
type RegistersSink<'s> = &'s mut dyn FnMut(Range<u64>, &Answer, &[(Register, Rule)]);

/// A section whose functions can be evaluated.
trait Evaluate {
    fn evaluate(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: Sink<'_>,
    ) -> Result<(), Unevaluated>;

    fn evaluate_registers(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: RegistersSink<'_>,
    ) -> Result<(), Unevaluated>;

    fn handler(&mut self, function: &Function) -> gimli::Result<Handler>;
}

/// A section in gimli's terms, with the CIEs that have been read.
struct Frames<'f, E: Endianity, S> {
    section: S,
    about: About<'f>,
    /// By their offsets; with each, whether it sets a CFA.
    cies: HashMap<usize, (Cie<'f, E>, bool)>,
}

/// Makes [`Frames`].
struct Prepare;

impl<'f> Visit<'f> for Prepare {
    type Output = Box<dyn Evaluate + 'f>;

    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(
        self,
        section: S,
        about: About<'f>,
    ) -> Self::Output {
        Box::new(Frames { section, about, cies: HashMap::new() })
    }
}

impl<'f> Evaluator<'f> {
    /// An evaluator of these functions.
    pub fn new(functions: &'f Functions<'_>) -> Self {
        Self { sections: functions.visit(|| Prepare), context: UnwindContext::new_in() }
    }

    /// Pushes what the CFI describes for a function into `sink`: ranges that follow each other from its
    /// start to its end; what the CFI describes beyond is trimmed.
    ///
    /// # Errors
    /// For the PCs that have not been pushed: what gimli refuses (instructions that it does not know or that
    /// make no sense, a change of a CFA that is not set, more than 192 register rules, more than 30 remembered
    /// states); a CIE that is too long for the number of FDEs.
    pub fn evaluate(
        &mut self,
        function: &Function,
        mut sink: impl FnMut(Range<u64>, &Answer, Flags),
    ) -> Result<(), Unevaluated> {
        match self.sections.get_mut(function.section) {
            Some(section) => section.evaluate(&mut self.context, function, &mut sink),
            None => Ok(()),
        }
    }

    /// The same, with the rules of the registers beside the frame pointer and the return address that
    /// do not keep their value, in ascending order.
    ///
    /// # Errors
    /// As [`Evaluator::evaluate`].
    pub fn evaluate_registers(
        &mut self,
        function: &Function,
        mut sink: impl FnMut(Range<u64>, &Answer, &[(Register, Rule)]),
    ) -> Result<(), Unevaluated> {
        match self.sections.get_mut(function.section) {
            Some(section) => section.evaluate_registers(&mut self.context, function, &mut sink),
            None => Ok(()),
        }
    }

    /// A function's personality and LSDA.
    ///
    /// # Errors
    /// gimli's, of a record that it cannot read.
    pub fn handler(&mut self, function: &Function) -> gimli::Result<Handler> {
        self.sections
            .get_mut(function.section)
            .map_or(Ok(Handler::default()), |section| section.handler(function))
    }
}

impl<'f, E: Endianity, S: UnwindSection<Reader<'f, E>>> Evaluate for Frames<'f, E, S> {
    fn evaluate(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: Sink<'_>,
    ) -> Result<(), Unevaluated> {
        self.walk(context, function, |translate, range, row, cfa_is_set, flags| {
            sink(range, &translate.row(row, cfa_is_set), flags);
        })
    }

    fn evaluate_registers(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: RegistersSink<'_>,
    ) -> Result<(), Unevaluated> {
        let mut registers = Vec::new();
        self.walk(context, function, |translate, range, row, cfa_is_set, _| {
            translate.registers(row, &mut registers);
            sink(range, &translate.row(row, cfa_is_set), &registers);
        })
    }

    fn handler(&mut self, function: &Function) -> gimli::Result<Handler> {
        let (fde, _) = self.fde(function)?;
        let Section { address, bytes, .. } = *self.about.section;
        let pointer = |pointer: Pointer| match pointer {
            Pointer::Direct(address) | Pointer::Indirect(address) => Address(address),
        };
        let personality = fde.cie().personality_with_encoding().map(|(encoding, personality)| {
            let is_relative = encoding.application() == gimli::DW_EH_PE_pcrel;
            let letters = self.about.letters(fde.cie().offset()).filter(|_| is_relative);
            Address(pointer(personality).0.wrapping_add(letters.map_or(0, |letters| letters.count)))
        });
        // A distance of 0 stands for none, and gimli takes it from where it stands.
        let is_none = |lsda: &Address| lsda.0 == 0 || lsda.0.wrapping_sub(address.0) < bytes.len() as u64;
        Ok(Handler { personality, lsda: fde.lsda().map(pointer).filter(|lsda| !is_none(lsda)) })
    }
}

impl<'f, E: Endianity, S: UnwindSection<Reader<'f, E>>> Frames<'f, E, S> {
    /// A function's FDE with its CIE, and whether that one sets a CFA.
    #[inline]
    fn fde(&mut self, function: &Function) -> gimli::Result<(Fde<'f, E>, bool)> {
        let Self { section, about, cies } = self;
        let partial = section.partial_fde_from_offset(&about.bases, function.fde.0.into())?;
        let mut sets_cfa = false;
        let fde = partial.parse(|section, bases, offset| {
            let at = UnwindOffset::into(offset);
            if let Some((cie, sets)) = cies.get(&at) {
                sets_cfa = *sets;
                return Ok(cie.clone());
            }
            let cie = section.cie_from_offset(bases, offset)?;
            // Of a longer one not a single instruction is run.
            sets_cfa = cie.entry_len() <= about.longest_cie
                && CfaSet::of_cie(&cie, section, bases).is_ok_and(|of_cie| of_cie.is_set);
            cies.insert(at, (cie.clone(), sets_cfa));
            Ok(cie)
        })?;
        Ok((fde, sets_cfa))
    }

    /// Calls `each` for every row, with the PCs that it is for and whether a CFA is set.
    #[inline]
    fn walk(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        mut each: impl FnMut(&Translate<'_, 'f, E, S>, Range<u64>, &UnwindTableRow<usize, Deep>, bool, Flags),
    ) -> Result<(), Unevaluated> {
        let (fde, cie_sets_cfa) = self.fde(function)?;
        let Self { section, about, .. } = self;
        let (length, longest) = (fde.cie().entry_len(), about.longest_cie);
        if length > longest {
            return Err(Unevaluated::LongCie { length, longest });
        }
        let flags = Flags {
            signal: Some(fde.is_signal_trampoline()),
            key_b: about.letters(fde.cie().offset()).is_some_and(|letters| letters.key_b),
        };
        let (arch, bases) = (about.section.arch, &about.bases);
        let translate = Translate { section, cie: fde.cie(), arch, first: function.start };
        let mut cfa_set = match cie_sets_cfa {
            true => None,
            false => Some(CfaSet::new(&fde, section, bases)?),
        };
        let mut rows = fde.rows(section, bases, context)?;
        let mut number = 0;
        while let Some(row) = rows.next_row()? {
            let start = row.start_address().max(function.start.0);
            let end = row.end_address().min(function.end.0);
            let is_set = cfa_set.as_mut().map_or(Ok(true), |cfa_set| cfa_set.in_row(number))?;
            if start < end {
                each(&translate, start..end, row, is_set, flags);
            }
            number += 1;
        }
        Ok(())
    }
}

/// Distinguishes rows in which no instruction has set a CFA from others, in functions whose CIE sets none: to gimli the
/// CFA is `register 0 + 0` from the start on, and may be changed.
struct CfaSet<'s, 'f, E: Endianity> {
    instructions: gimli::CallFrameInstructionIter<'s, Reader<'f, E>>,
    /// Number of the row that `instructions` stands after; rows end where the location moves.
    row: u64,
    is_set: bool,
    remembered: Vec<bool>,
}

impl<'s, 'f, E: Endianity> CfaSet<'s, 'f, E> {
    fn new<S: UnwindSection<Reader<'f, E>>>(
        fde: &Fde<'f, E>,
        section: &'s S,
        bases: &'s BaseAddresses,
    ) -> gimli::Result<Self> {
        let of_cie = Self::of_cie(fde.cie(), section, bases)?;
        Ok(Self { instructions: fde.instructions(section, bases), row: 0, ..of_cie })
    }

    /// As it is after the instructions of a CIE.
    fn of_cie<S: UnwindSection<Reader<'f, E>>>(
        cie: &Cie<'f, E>,
        section: &'s S,
        bases: &'s BaseAddresses,
    ) -> gimli::Result<Self> {
        let instructions = cie.instructions(section, bases);
        let mut of_cie = Self { instructions, row: 0, is_set: false, remembered: Vec::new() };
        of_cie.in_row(u64::MAX - 1)?;
        Ok(of_cie)
    }

    /// Whether a CFA is set in a row. Numbers ascend from call to call.
    ///
    /// # Errors
    /// One that is not set is changed.
    fn in_row(&mut self, number: u64) -> gimli::Result<bool> {
        use CallFrameInstruction::*;
        while self.row <= number {
            match self.instructions.next() {
                Ok(Some(DefCfa { .. } | DefCfaSf { .. } | DefCfaExpression { .. })) => self.is_set = true,
                Ok(Some(DefCfaRegister { .. } | DefCfaOffset { .. } | DefCfaOffsetSf { .. }))
                    if !self.is_set =>
                {
                    return Err(gimli::Error::CfiInstructionInInvalidContext);
                }
                Ok(Some(RememberState)) => self.remembered.push(self.is_set),
                Ok(Some(RestoreState)) => self.is_set = self.remembered.pop().unwrap_or(self.is_set),
                Ok(Some(AdvanceLoc { .. } | SetLoc { .. })) => self.row += 1,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        Ok(self.is_set)
    }
}
