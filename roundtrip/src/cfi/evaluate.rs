//! Evaluates functions with gimli, row by row.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::ops::Range;

use cfipack_format::cfi::Section;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Register, Rule};
use gimli::{Endianity, Pointer, UnwindContext, UnwindOffset, UnwindSection, UnwindTableRow};

use super::about::About;
use super::answer::{Answer, Flags};
use super::cies::Cies;
use super::functions::{Function, Functions};
use super::instructions::{CfaSet, Listed, has_addresses};
use super::program::{Head, Program};
use super::record::record_at;
use super::source::{Cie, Fde, Reader, Visit};
use super::storage::Deep;
use super::translate::Translate;
use super::unevaluated::Unevaluated;

/// Evaluates functions. It keeps the CIEs that it has read and its buffers from function to function.
pub struct Evaluator<'f> {
    functions: &'f Functions<'f>,
    sections: Vec<Box<dyn Evaluate<'f> + 'f>>,
    /// The sections without instructions that gimli does not know, for functions that have some.
    known: HashMap<usize, Box<dyn Evaluate<'f> + 'f>>,
    context: UnwindContext<usize, Deep>,
}

impl fmt::Debug for Evaluator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("sections", &self.sections.len()).finish_non_exhaustive()
    }
}

/// The parts of a function's FDE and CIE for exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Handler {
    /// The address of the personality, or of a pointer to it. Nearly all functions have the pointer.
    pub personality: Option<Address>,
    /// The language-specific data area.
    pub lsda: Option<Address>,
}

/// Receives the answers for a function's ranges of PCs.
type Sink<'s> = &'s mut dyn FnMut(Range<u64>, &Answer, Flags);

/// Receives the answers, with the rules of all other registers, and the number of bytes of arguments that are pushed.
type RegistersSink<'s> = &'s mut dyn FnMut(Range<u64>, &Answer, &[(Register, Rule)], u64);

/// A section of CFI with functions to evaluate.
trait Evaluate<'f> {
    fn program(&mut self, function: &Function) -> Option<Program<'f>>;

    fn has_addresses(&mut self, function: &Function) -> bool;

    fn evaluate(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: Sink<'_>,
    ) -> Result<Address, Unevaluated>;

    fn evaluate_registers(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: RegistersSink<'_>,
    ) -> Result<Address, Unevaluated>;

    fn handler(&mut self, function: &Function) -> gimli::Result<Handler>;

    fn flags(&mut self, function: &Function) -> gimli::Result<Flags>;
}

/// A section as gimli reads it, with the CIEs that have been read.
struct Frames<'f, E: Endianity, S> {
    section: S,
    about: About<'f>,
    listed: Listed<'f>,
    cies: Cies<gimli::Result<KnownCie<'f, E>>>,
}

/// A CIE, with the properties that all its functions share.
struct KnownCie<'f, E: Endianity> {
    cie: Cie<'f, E>,
    sets_cfa: bool,
    head: Option<Head>,
}

/// Builds [`Frames`].
struct Prepare;

impl<'f> Visit<'f> for Prepare {
    type Output = Box<dyn Evaluate<'f> + 'f>;

    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(
        self,
        section: S,
        about: About<'f>,
    ) -> Self::Output {
        let listed = Listed::new(&about);
        Box::new(Frames { section, about, listed, cies: Cies::new() })
    }
}

impl<'f> Evaluator<'f> {
    /// Prepares to evaluate these functions.
    pub fn new(functions: &'f Functions<'_>) -> Self {
        let (sections, known) = (functions.visit(|| Prepare), HashMap::new());
        Self { functions, sections, known, context: UnwindContext::new_in() }
    }

    /// Pushes the answers of the CFI for a function into `sink`. The ranges follow each other from the function's start
    /// to its end. Rows beyond the end are cut off.
    ///
    /// # Errors
    /// Returns an error if gimli refuses the rest of the function. It refuses instructions that are unknown or make no
    /// sense, a change of a CFA that is not set, more than 192 register rules, and more than 30 remembered states. A
    /// CIE that is too long for the number of FDEs is an error too. The answers before the error have been pushed.
    pub fn evaluate(
        &mut self,
        function: &Function,
        sink: impl FnMut(Range<u64>, &Answer, Flags),
    ) -> Result<(), Unevaluated> {
        self.evaluate_to_last_row(function, sink).map(|_| ())
    }

    /// Evaluates a function. Returns the start of its last row, even if the row starts beyond the function's end.
    pub(crate) fn evaluate_to_last_row(
        &mut self,
        function: &Function,
        mut sink: impl FnMut(Range<u64>, &Answer, Flags),
    ) -> Result<Address, Unevaluated> {
        let Some(section) = self.sections.get_mut(function.section) else { return Ok(function.start) };
        let result = section.evaluate(&mut self.context, function, &mut sink);
        if result.is_ok() {
            return result;
        }
        let Some((known, context, pushed)) = self.known(function, result) else { return result };
        known.evaluate(context, function, &mut |range, answer, flags| {
            if range.end > pushed {
                sink(range.start.max(pushed)..range.end, answer, flags);
            }
        })
    }

    /// If gimli has refused an instruction that it does not know, returns the section without such instructions, and the end
    /// of the rows before the error.
    #[cold]
    fn known(
        &mut self,
        function: &Function,
        result: Result<Address, Unevaluated>,
    ) -> Option<(&mut dyn Evaluate<'f>, &mut UnwindContext<usize, Deep>, u64)> {
        let Err(Unevaluated::Gimli(gimli::Error::UnknownCallFrameInstruction(_))) = result else {
            return None;
        };
        let mut pushed = function.start.0;
        let section = self.sections.get_mut(function.section)?;
        _ = section.evaluate(&mut self.context, function, &mut |range, _, _| pushed = range.end);
        let known = match self.known.entry(function.section) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.functions.visit_known(function.section, Prepare)?),
        };
        Some((&mut **known, &mut self.context, pushed))
    }

    /// Returns the bytes that determine a function's rows apart from its addresses, or `None` for an FDE of an uncommon
    /// form.
    #[inline]
    pub(crate) fn program(&mut self, function: &Function) -> Option<Program<'f>> {
        self.sections.get_mut(function.section)?.program(function)
    }

    /// Returns whether an instruction of a function moves to an address, or cannot be read.
    pub(crate) fn has_addresses(&mut self, function: &Function) -> bool {
        self.sections.get_mut(function.section).is_none_or(|section| section.has_addresses(function))
    }

    /// Works like [`Evaluator::evaluate`], but pushes the rules of the other registers instead of the flags, in
    /// ascending order. The return address, the frame pointer, the stack pointer and unchanged registers are omitted. The
    /// last argument is the number of bytes of arguments that an unwinder takes off the stack before a landing pad.
    ///
    /// # Errors
    /// Returns the same errors as [`Evaluator::evaluate`].
    pub fn evaluate_registers(
        &mut self,
        function: &Function,
        mut sink: impl FnMut(Range<u64>, &Answer, &[(Register, Rule)], u64),
    ) -> Result<(), Unevaluated> {
        let Some(section) = self.sections.get_mut(function.section) else { return Ok(()) };
        let mut result = section.evaluate_registers(&mut self.context, function, &mut sink);
        if let Some((known, context, pushed)) = self.known(function, result) {
            result = known.evaluate_registers(context, function, &mut |range, answer, registers, size| {
                if range.end > pushed {
                    sink(range.start.max(pushed)..range.end, answer, registers, size);
                }
            });
        }
        result.map(|_| ())
    }

    /// Returns a function's personality and LSDA.
    ///
    /// # Errors
    /// Returns gimli's error for a record that it cannot read.
    pub fn handler(&mut self, function: &Function) -> gimli::Result<Handler> {
        self.sections
            .get_mut(function.section)
            .map_or(Ok(Handler::default()), |section| section.handler(function))
    }

    /// Returns whether a function is a signal frame: no call enters it. Returns false if gimli cannot read its FDE.
    pub fn is_signal_frame(&mut self, function: &Function) -> bool {
        self.flags(function).signal == Some(true)
    }

    /// Returns whether signed return addresses of a function are signed with key B of AArch64. Returns false if gimli cannot
    /// read its FDE.
    pub fn has_key_b(&mut self, function: &Function) -> bool {
        self.flags(function).key_b
    }

    fn flags(&mut self, function: &Function) -> Flags {
        let flags = self.sections.get_mut(function.section).map(|section| section.flags(function));
        flags.and_then(Result::ok).unwrap_or_default()
    }
}

impl<'f, E: Endianity, S: UnwindSection<Reader<'f, E>>> Evaluate<'f> for Frames<'f, E, S> {
    fn program(&mut self, function: &Function) -> Option<Program<'f>> {
        let Self { section, about, listed, cies } = self;
        let record = record_at(about.section, function.fde.0)??;
        let fde = section.partial_fde_from_offset(&about.bases, record.offset.into()).ok()?;
        let offset = fde.cie_offset();
        let cie = UnwindOffset::into(offset);
        let head = cies.at(cie, || KnownCie::read(section, offset, about, listed)).as_ref().ok()?.head?;
        let instructions = head.instructions(about.section.bytes.get(record.body..record.end)?)?;
        Some(Program::new(function.section, cie, instructions))
    }

    fn has_addresses(&mut self, function: &Function) -> bool {
        self.listed.of_fde(function.fde.0).map_or(true, has_addresses)
    }

    fn evaluate(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: Sink<'_>,
    ) -> Result<Address, Unevaluated> {
        self.walk(context, function, |translate, range, row, cfa_is_set, flags| {
            sink(range, &translate.row(row, cfa_is_set), flags);
        })
    }

    fn evaluate_registers(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        sink: RegistersSink<'_>,
    ) -> Result<Address, Unevaluated> {
        let mut registers = Vec::new();
        self.walk(context, function, |translate, range, row, cfa_is_set, _| {
            translate.registers(row, &mut registers);
            sink(range, &translate.row(row, cfa_is_set), &registers, row.saved_args_size());
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
            let changed = self.about.change_of(fde.cie().offset()).filter(|_| is_relative);
            Address(pointer(personality).0.wrapping_add(changed.map_or(0, |changed| changed.removed)))
        });
        // A distance of 0 means that there is no LSDA. gimli adds the distance to the address of the field, so the
        // result lies in the section.
        let lsda = fde.lsda().map(pointer);
        let lsda = lsda.filter(|it| it.0 != 0 && it.0.wrapping_sub(address.0) >= bytes.len().to_u64());
        Ok(Handler { personality, lsda })
    }

    fn flags(&mut self, function: &Function) -> gimli::Result<Flags> {
        let (fde, _) = self.fde(function)?;
        Ok(self.about.flags_of(&fde))
    }
}

impl<'f, E: Endianity, S: UnwindSection<Reader<'f, E>>> Frames<'f, E, S> {
    /// Returns a function's FDE with its CIE, and whether the CIE sets a CFA.
    #[inline]
    fn fde(&mut self, function: &Function) -> gimli::Result<(Fde<'f, E>, bool)> {
        let Self { section, about, listed, cies } = self;
        let partial = section.partial_fde_from_offset(&about.bases, function.fde.0.into())?;
        let mut sets_cfa = false;
        let fde = partial.parse(|section, _, offset| {
            let known =
                cies.at(UnwindOffset::into(offset), || KnownCie::read(section, offset, about, listed));
            let known = known.as_ref().map_err(|error| *error)?;
            sets_cfa = known.sets_cfa;
            Ok(known.cie.clone())
        })?;
        Ok((fde, sets_cfa))
    }

    /// Calls `each` for every row. The bool says whether a CFA is set in the row. Returns the start of the last row.
    #[inline]
    fn walk(
        &mut self,
        context: &mut UnwindContext<usize, Deep>,
        function: &Function,
        mut each: impl FnMut(&Translate<'_, 'f, E, S>, Range<u64>, &UnwindTableRow<usize, Deep>, bool, Flags),
    ) -> Result<Address, Unevaluated> {
        let (fde, cie_sets_cfa) = self.fde(function)?;
        let Self { section, about, listed, .. } = self;
        let (length, longest) = (fde.cie().entry_len(), about.longest_cie);
        if length > longest {
            return Err(Unevaluated::LongCie { length, longest });
        }
        let flags = about.flags_of(&fde);
        let (arch, bases) = (about.section.arch, &about.bases);
        let signing = about.signing_of(fde.offset());
        let translate = Translate { section, cie: fde.cie(), arch, first: function.start, signing };
        let mut cfa_set =
            if cie_sets_cfa { None } else { Some(CfaSet::new(listed, fde.cie().offset(), fde.offset())?) };
        let mut rows = fde.rows(section, bases, context)?;
        let (mut number, mut last) = (0, function.start);
        while let Some(row) = rows.next_row()? {
            last = Address(row.start_address());
            let start = row.start_address().max(function.start.0);
            let end = row.end_address().min(function.end.0);
            let is_set = cfa_set.as_mut().map_or(Ok(true), |cfa_set| cfa_set.in_row(number))?;
            if start < end {
                each(&translate, start..end, row, is_set, flags);
            }
            number += 1;
        }
        Ok(last)
    }
}

impl<'f, E: Endianity> KnownCie<'f, E> {
    #[cold]
    fn read<S: UnwindSection<Reader<'f, E>>>(
        section: &S,
        offset: S::Offset,
        about: &About<'f>,
        listed: &Listed<'f>,
    ) -> gimli::Result<Self> {
        let cie = section.cie_from_offset(&about.bases, offset)?;
        // No instruction of a longer CIE is run.
        let sets_cfa = cie.entry_len() <= about.longest_cie && CfaSet::is_set_by_cie(listed, cie.offset());
        let head = Head::of_fdes(&cie, about);
        Ok(Self { cie, sets_cfa, head })
    }
}
