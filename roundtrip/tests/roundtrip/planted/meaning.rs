//! Decides what CFI means: gimli alone unwinds each frame on a machine with random registers and memory. No code of the
//! judge or of the encoder takes part.

use std::ops::Range;

use cfipack_format::Arch;
use cfipack_testkit::by_cfi::{Slice, Values, eh_frame};
use gimli::{BaseAddresses, EhFrame, Register, RegisterRule, UnwindContext, UnwindSection, UnwindTableRow};

use crate::made::CFI_ADDRESS;

type Row = UnwindTableRow<usize>;

/// A value of the caller, or `None` if the CFI gives no value.
type Number = Option<u64>;

/// The result of unwinding a frame.
#[derive(PartialEq, Debug)]
enum Caller {
    /// The return address is undefined: there is no caller.
    None,
    Frame {
        cfa: Number,
        return_address: Number,
        frame_pointer: Number,
        stack_pointer: Number,
        signed: Number,
    },
}

/// A function's rows, up to the instruction that gimli refuses, if there is one.
struct Function {
    pcs: Range<u64>,
    column: Register,
    encoding: gimli::Encoding,
    rows: Vec<Row>,
    sets_cfa: bool,
}

/// The functions of a section.
pub struct Frames<'a> {
    arch: Arch,
    section: EhFrame<Slice<'a>>,
    functions: Vec<Function>,
}

/// The relation between the CFI of two sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// Every frame of every function unwinds alike.
    Same,
    /// Some frame unwinds differently.
    Different,
    /// All frames with rows unwind alike, but some PCs have no row, because gimli refuses an instruction.
    Undefined,
}

/// Returns the value of a register, or of the memory at an address.
fn random(kind: u64, place: u64) -> u64 {
    let mut value = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ kind.wrapping_mul(0xd1b5_4a32_d192_ed03);
    for _ in 0..3 {
        value = (value ^ value >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    value ^ value >> 32
}

impl<'a> Frames<'a> {
    /// Reads a section. Returns `None` if gimli cannot read one of its records.
    pub fn read(bytes: &'a [u8], arch: Arch) -> Option<Self> {
        let section = eh_frame(bytes, arch);
        let bases = BaseAddresses::default().set_eh_frame(CFI_ADDRESS.0);
        let (mut functions, mut entries) = (Vec::new(), section.entries(&bases));
        let mut context = UnwindContext::new();
        while let Some(entry) = entries.next().ok()? {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(EhFrame::cie_from_offset).ok()?;
            let mut rows = Vec::new();
            let sets_cfa = sets_cfa_first(&section, &bases, &fde);
            if sets_cfa != Some(false)
                && let Ok(mut table) = fde.rows(&section, &bases, &mut context)
            {
                while let Ok(Some(row)) = table.next_row() {
                    rows.push(row.clone());
                }
            }
            functions.push(Function {
                pcs: fde.initial_address()..fde.initial_address() + fde.len(),
                column: fde.cie().return_address_register(),
                encoding: fde.cie().encoding(),
                rows,
                sets_cfa: sets_cfa == Some(true),
            });
        }
        Some(Self { arch, section, functions })
    }

    /// Returns whether every function has a row with a CFA for every PC.
    pub fn are_whole(&self) -> bool {
        self.functions.iter().all(|function| function.sets_cfa) && self.compare(self) == Relation::Same
    }

    /// Compares every function with the function of another section at the same place.
    pub fn compare(&self, other: &Self) -> Relation {
        assert_eq!(self.functions.len(), other.functions.len());
        let mut relation = Relation::Same;
        for (function, with) in self.functions.iter().zip(&other.functions) {
            assert_eq!(function.pcs, with.pcs);
            match self.relation(function, other, with) {
                Relation::Same => {}
                Relation::Different => return Relation::Different,
                Relation::Undefined => relation = Relation::Undefined,
            }
        }
        relation
    }

    fn relation(&self, function: &Function, other: &Self, with: &Function) -> Relation {
        let mut pc = function.pcs.start;
        while pc < function.pcs.end {
            let here = function.rows.iter().find(|row| row.contains(pc));
            let there = with.rows.iter().find(|row| row.contains(pc));
            let Some((here, there)) = here.zip(there) else { return Relation::Undefined };
            let end = here.end_address().min(there.end_address()).min(function.pcs.end);
            // An expression may depend on the PC. For example, a PLT's expression depends on the PC modulo 16.
            let mut samples = pc..end.min(pc + 16);
            if !samples.all(|pc| self.unwind(function, here, pc) == other.unwind(with, there, pc)) {
                return Relation::Different;
            }
            pc = end;
        }
        Relation::Same
    }

    fn unwind(&self, function: &Function, row: &Row, pc: u64) -> Caller {
        let arch = self.arch;
        let register = |number: u16| match (arch, number) {
            (Arch::Amd64, 16) => pc,
            _ => random(1, number.into()),
        };
        let own = |number| Some(register(number));
        let memory = |address| Some(random(2, address));
        let (section, encoding) = (&self.section, function.encoding);
        let values = Values { section, encoding, registers: &own, memory: &memory, arch };
        let cfa = values.cfa(row).ok();
        let value = |own: u16| values.register(row, own, cfa).ok().flatten();
        let rule = |own: Register| row.register(own);
        if rule(function.column) == Some(RegisterRule::Undefined) {
            return Caller::None;
        }
        let return_address = match rule(function.column) {
            // The call has pushed the return address.
            None if arch == Arch::Amd64 && function.column.0 == 16 => {
                cfa.map(|cfa| random(2, cfa.wrapping_sub(8)))
            }
            _ => value(function.column.0),
        };
        let frame_pointer = value(arch.frame_pointer().0);
        let by_abi = cfa.map(|cfa| cfa.wrapping_add_signed(arch.stack_pointer_from_cfa()));
        let stack_pointer = match rule(Register(arch.stack_pointer().0)) {
            None => by_abi,
            // s390x saves it on entry like any other register, when it has the value that the ABI gives it.
            Some(RegisterRule::Offset(_) | RegisterRule::Register(_)) if arch == Arch::S390x => by_abi,
            Some(_) => value(arch.stack_pointer().0),
        };
        let signed = match rule(gimli::AArch64::RA_SIGN_STATE).filter(|_| arch.is_aarch64()) {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(0),
            Some(_) => value(gimli::AArch64::RA_SIGN_STATE.0),
        };
        Caller::Frame { cfa, return_address, frame_pointer, stack_pointer, signed }
    }
}

/// Returns whether the first instruction about the CFA sets it. This matters because gimli starts with a CFA that no
/// instruction has set, and lets instructions change this CFA. Returns `None` if no instruction is about the CFA.
fn sets_cfa_first<'a>(
    section: &EhFrame<Slice<'a>>,
    bases: &BaseAddresses,
    fde: &gimli::FrameDescriptionEntry<Slice<'a>>,
) -> Option<bool> {
    use gimli::CallFrameInstruction as I;
    let lists = [fde.cie().instructions(section, bases), fde.instructions(section, bases)];
    for mut list in lists {
        while let Ok(Some(instruction)) = list.next() {
            match instruction {
                I::DefCfa { .. } | I::DefCfaSf { .. } | I::DefCfaExpression { .. } => return Some(true),
                I::DefCfaRegister { .. } | I::DefCfaOffset { .. } | I::DefCfaOffsetSf { .. } => {
                    return Some(false);
                }
                _ => {}
            }
        }
    }
    None
}
