//! Unwinds by the CFI itself, as gimli evaluates it. Tests compare a table's results with these values. Nothing of
//! cfipack is involved but names of architectures and registers.

use std::fmt;

use cfipack_format::{Arch, Endian};
use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, Encoding, EndianSlice, EvaluationResult, Expression,
    FrameDescriptionEntry, Location, Piece, Reader, RegisterRule, RunTimeEndian, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow,
};

/// Bytes of CFI, as gimli reads them.
pub type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// The values of a frame's registers, by DWARF number. `None` for a lost value.
pub type Registers = [Option<u64>; 160];

/// The caller's frame.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The canonical frame address.
    pub cfa: u64,
    /// The return address as stored (signed, if the function signs it).
    pub return_address: Option<u64>,
    /// The caller's registers.
    pub registers: Registers,
    /// True if the function is a signal trampoline: its caller's PC has not been executed yet.
    pub signal_frame: bool,
    /// AArch64: whether the return address is signed.
    pub signed: bool,
}

/// Why a frame has no caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// No function contains the PC, or no row of the function applies to it.
    NoRow,
    /// The frame is the outermost one by the CFI.
    Outermost,
    /// A register or a word of memory that a rule needs is not available.
    Lost,
    /// gimli cannot evaluate the CFI.
    Malformed(gimli::Error),
}

impl From<gimli::Error> for Stop {
    fn from(error: gimli::Error) -> Self {
        Self::Malformed(error)
    }
}

/// A section of call frame information.
#[derive(Debug)]
pub struct Cfi<'a, S: UnwindSection<Slice<'a>>> {
    parts: Vec<Part<S>>,
    /// Sorted by start.
    functions: Vec<Function<'a>>,
    context: UnwindContext<usize>,
    arch: Arch,
}

/// gimli stops at a terminator. A part is the CFI between two terminators.
#[derive(Debug)]
struct Part<S> {
    section: S,
    bases: BaseAddresses,
}

#[derive(Debug)]
struct Function<'a> {
    fde: FrameDescriptionEntry<Slice<'a>>,
    part: usize,
}

impl<'a> Cfi<'a, EhFrame<Slice<'a>>> {
    /// Reads an `.eh_frame` at `address`. Text- and data-relative pointers count from `text` and `data`.
    pub fn eh_frame(bytes: &'a [u8], address: u64, text: u64, data: u64, arch: Arch) -> gimli::Result<Self> {
        let mut cfi = Self::empty(arch);
        let mut start = 0;
        while start < bytes.len() {
            let section = eh_frame(&bytes[start..], arch);
            let bases = BaseAddresses::default().set_text(text).set_got(data);
            cfi.part(section, bases.set_eh_frame(address + start as u64))?;
            start = end_of_part(bytes, start, arch.endian());
        }
        Ok(cfi)
    }
}

impl<'a> Cfi<'a, DebugFrame<Slice<'a>>> {
    /// Reads a `.debug_frame`.
    pub fn debug_frame(bytes: &'a [u8], arch: Arch) -> gimli::Result<Self> {
        let mut cfi = Self::empty(arch);
        let mut section = DebugFrame::new(bytes, endian(arch));
        section.set_address_size(8);
        section.set_vendor(vendor(arch));
        cfi.part(section, BaseAddresses::default())?;
        Ok(cfi)
    }
}

/// Returns gimli's reader for an `.eh_frame` of an architecture with pointers of 8 bytes.
pub fn eh_frame(bytes: &[u8], arch: Arch) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, endian(arch));
    section.set_address_size(8);
    section.set_vendor(vendor(arch));
    section
}

impl<'a, S: UnwindSection<Slice<'a>>> Cfi<'a, S> {
    fn empty(arch: Arch) -> Self {
        Self { parts: Vec::new(), functions: Vec::new(), context: UnwindContext::new(), arch }
    }

    fn part(&mut self, section: S, bases: BaseAddresses) -> gimli::Result<()> {
        let mut entries = section.entries(&bases);
        while let Some(entry) = entries.next()? {
            if let gimli::CieOrFde::Fde(partial) = entry {
                let fde = partial.parse(S::cie_from_offset)?;
                self.functions.push(Function { fde, part: self.parts.len() });
            }
        }
        self.functions.sort_by_key(|function| function.fde.initial_address());
        self.parts.push(Part { section, bases });
        Ok(())
    }

    /// Returns the functions' addresses, sorted.
    pub fn functions(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.functions.iter().map(|Function { fde, .. }| fde.initial_address()..fde.end_address())
    }

    /// Finds the caller of the frame with this PC and these registers. `memory` gives the word at an address.
    pub fn caller(
        &mut self,
        pc: u64,
        registers: &Registers,
        memory: &dyn Fn(u64) -> Option<u64>,
    ) -> Result<Caller, Stop> {
        let after = self.functions.partition_point(|function| function.fde.initial_address() <= pc);
        let function = self.functions[..after].iter().rev().find(|function| function.fde.len() != 0);
        let Some(Function { fde, part }) = function.filter(|function| function.fde.contains(pc)) else {
            return Err(Stop::NoRow);
        };
        let Part { section, bases } = &self.parts[*part];
        let row = match fde.unwind_info_for_address(section, bases, &mut self.context, pc) {
            Err(gimli::Error::NoUnwindInfoForAddress) => return Err(Stop::NoRow),
            row => row?,
        };
        let own = |number: u16| registers.get(usize::from(number)).copied().flatten();
        let encoding = fde.cie().encoding();
        let values = Values { section, encoding, registers: &own, memory, arch: self.arch };
        let cfa = values.cfa(row)?;
        let return_column = fde.cie().return_address_register();
        let return_address = match row.register(return_column) {
            // x86's call pushes the return address at CFA-8, even if the CFI does not mention it.
            None if self.arch == Arch::Amd64 => Some(memory(cfa.wrapping_sub(8)).ok_or(Stop::Lost)?),
            Some(RegisterRule::Undefined) => return Err(Stop::Outermost),
            _ => values.register(row, return_column.0, Some(cfa))?,
        };
        let mut callers = [None; 160];
        for (number, value) in callers.iter_mut().enumerate() {
            *value = values.register(row, number as u16, Some(cfa))?;
        }
        let stack_pointer = self.arch.stack_pointer().0;
        if row.register(gimli::Register(stack_pointer)).is_none() {
            let above = self.arch.stack_pointer_from_cfa();
            callers[usize::from(stack_pointer)] = Some(cfa.wrapping_add_signed(above));
        }
        let state = row.register(gimli::AArch64::RA_SIGN_STATE);
        let signed = self.arch.is_aarch64() && matches!(state, Some(RegisterRule::Constant(1)));
        Ok(Caller {
            cfa,
            return_address,
            registers: callers,
            signal_frame: fde.is_signal_trampoline(),
            signed,
        })
    }
}

/// Evaluates the rules of a row in a frame. The section can have any reader of gimli's.
pub struct Values<'v, S> {
    /// The section that has the row's expressions.
    pub section: &'v S,
    /// The encoding of the function's CIE.
    pub encoding: Encoding,
    /// The frame's registers.
    pub registers: &'v dyn Fn(u16) -> Option<u64>,
    /// Returns the word of 8 bytes at an address.
    pub memory: &'v dyn Fn(u64) -> Option<u64>,
    /// The architecture, which decides the byte order of memory.
    pub arch: Arch,
}

impl<S> fmt::Debug for Values<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

/// The most steps of an expression. After them its evaluation is an error.
const MAX_STEPS: u32 = 1000;

impl<S> Values<'_, S> {
    fn own(&self, number: u16) -> Result<u64, Stop> {
        (self.registers)(number).ok_or(Stop::Lost)
    }

    fn word(&self, address: u64) -> Result<u64, Stop> {
        (self.memory)(address).ok_or(Stop::Lost)
    }

    /// Returns the canonical frame address.
    pub fn cfa<R: Reader<Offset = usize>>(&self, row: &UnwindTableRow<usize>) -> Result<u64, Stop>
    where
        S: UnwindSection<R>,
    {
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Ok(self.own(register.0)?.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    /// Returns the caller's value of a register. `None` if it is lost, or if it depends on an unknown `cfa`.
    pub fn register<R: Reader<Offset = usize>>(
        &self,
        row: &UnwindTableRow<usize>,
        number: u16,
        cfa: Option<u64>,
    ) -> Result<Option<u64>, Stop>
    where
        S: UnwindSection<R>,
    {
        let Some(rule) = row.register(gimli::Register(number)) else {
            return Ok(self.own(number).ok());
        };
        let at = |offset: i64| cfa.map(|cfa| cfa.wrapping_add_signed(offset)).ok_or(Stop::Lost);
        let value = match rule {
            RegisterRule::Undefined => return Ok(None),
            RegisterRule::SameValue => return Ok(self.own(number).ok()),
            RegisterRule::Offset(offset) => at(offset).and_then(|at| self.word(at)),
            RegisterRule::ValOffset(offset) => at(offset),
            RegisterRule::Register(other) => self.own(other.0),
            RegisterRule::Expression(expression) => {
                self.evaluate(&expression, cfa).and_then(|address| self.word(address))
            }
            RegisterRule::ValExpression(expression) => self.evaluate(&expression, cfa),
            RegisterRule::Constant(value) => Ok(value),
            _ => Err(Stop::Lost),
        };
        match value {
            Err(Stop::Lost) => Ok(None),
            value => value.map(Some),
        }
    }

    fn evaluate<R: Reader<Offset = usize>>(
        &self,
        expression: &UnwindExpression<usize>,
        initial: Option<u64>,
    ) -> Result<u64, Stop>
    where
        S: UnwindSection<R>,
    {
        let expression: Expression<R> = expression.get(self.section)?;
        let mut evaluation = expression.evaluation(self.encoding);
        evaluation.set_max_iterations(MAX_STEPS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(gimli::Value::Generic(self.own(register.0)?))?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = self.word(address)?;
                    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
                    let shift = match self.arch.endian() {
                        Endian::Little => 0,
                        Endian::Big => unused,
                    };
                    let mask = u64::MAX >> unused;
                    evaluation.resume_with_memory(gimli::Value::Generic(word >> shift & mask))?
                }
                _ => return Err(Stop::Lost),
            };
        }
        match evaluation.as_result() {
            [Piece { location: Location::Address { address }, .. }] => Ok(*address),
            [Piece { location: Location::Value { value }, .. }] => Ok(value.to_u64(u64::MAX)?),
            _ => Err(Stop::Lost),
        }
    }
}

fn endian(arch: Arch) -> RunTimeEndian {
    match arch.endian() {
        Endian::Little => RunTimeEndian::Little,
        Endian::Big => RunTimeEndian::Big,
    }
}

fn vendor(arch: Arch) -> gimli::Vendor {
    if arch.is_aarch64() { gimli::Vendor::AArch64 } else { gimli::Vendor::Default }
}

/// Returns where the part that starts at `start` ends: after its terminator, or at the section's end.
fn end_of_part(bytes: &[u8], mut start: usize, endian: Endian) -> usize {
    while let Some(&[a, b, c, d]) = bytes.get(start..).and_then(<[u8]>::first_chunk) {
        start += 4;
        match endian.u32([a, b, c, d]) {
            0 => return start,
            0xffff_ffff => {
                let Some(&length) = bytes.get(start..).and_then(<[u8]>::first_chunk) else { break };
                start = start.saturating_add(8).saturating_add(endian.u64(length) as usize);
            }
            length => start = start.saturating_add(length as usize),
        }
    }
    bytes.len()
}
