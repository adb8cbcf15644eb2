//! Finds callers by a program's CFI, as gimli evaluates it.

use cfipack_container::File;
use cfipack_format::{Arch, Endian};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, RegisterRule, RunTimeEndian,
    UnwindContext, UnwindSection as _,
};

use super::core_file::Core;

/// A program's `.eh_frame`.
pub struct Cfi<'f> {
    arch: Arch,
    section: EhFrame<EndianSlice<'f, RunTimeEndian>>,
    bases: BaseAddresses,
    /// First address, end and FDE of each function, ascending.
    functions: Vec<(u64, u64, usize)>,
}

/// The caller of a frame by CFI.
pub enum Caller {
    /// The caller's registers. `pc` is the return address.
    Frame {
        pc: u64,
        sp: u64,
        registers: Vec<Option<u64>>,
    },
    Outermost,
    /// The code has no CFI.
    NoRow,
}

impl<'f> Cfi<'f> {
    pub fn new(file: &File<'_>, bytes: &'f [u8], address: u64) -> Self {
        let arch = file.arch();
        let endian = match arch.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let section = EhFrame::new(bytes, endian);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut functions = Vec::new();
        let mut entries = section.entries(&bases);
        while let Some(entry) = entries.next().expect("well-formed CFI") {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(EhFrame::cie_from_offset).expect("a well-formed FDE");
            functions.push((fde.initial_address(), fde.end_address(), fde.offset()));
        }
        functions.sort_unstable();
        Self { arch, section, bases, functions }
    }

    /// Finds the caller of a frame with these registers at an address.
    pub fn caller(&self, address: u64, registers: &[Option<u64>], core: &Core) -> Caller {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let function = after.checked_sub(1).map(|index| self.functions[index]);
        let Some((.., offset)) = function.filter(|function| address < function.1) else {
            return Caller::NoRow;
        };
        let offset = EhFrameOffset(offset);
        let fde =
            self.section.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset).expect("read before");
        let mut context = UnwindContext::new();
        let row = fde
            .unwind_info_for_address(&self.section, &self.bases, &mut context, address)
            .expect("a row for each address");
        let own = |number: u16| registers.get(usize::from(number)).copied().flatten();
        let evaluated = |expression: &gimli::UnwindExpression<usize>, initial: Option<u64>| {
            let expression = expression.get(&self.section).expect("within the section");
            let mut evaluation = expression.evaluation(fde.cie().encoding());
            if let Some(initial) = initial {
                evaluation.set_initial_value(initial);
            }
            let mut result = evaluation.evaluate().expect("an expression of the compiler's");
            loop {
                result = match result {
                    gimli::EvaluationResult::Complete => break,
                    gimli::EvaluationResult::RequiresRegister { register, .. } => evaluation
                        .resume_with_register(gimli::Value::Generic(own(register.0)?))
                        .expect("goes on"),
                    gimli::EvaluationResult::RequiresMemory { address, .. } => evaluation
                        .resume_with_memory(gimli::Value::Generic(core.word(address)?))
                        .expect("goes on"),
                    other => panic!("an expression asks for {other:?}"),
                };
            }
            match evaluation.as_result()[0].location {
                gimli::Location::Address { address } => Some(address),
                _ => None,
            }
        };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                own(register.0).expect("the CFA's register").wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => evaluated(expression, None).expect("the CFA"),
        };
        let return_column = fde.cie().return_address_register();
        if row.register(return_column) == Some(RegisterRule::Undefined) {
            return Caller::Outermost;
        }
        let value = |number: u16| match row.register(gimli::Register(number)) {
            Some(RegisterRule::Offset(offset)) => core.word(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => own(other.0),
            Some(RegisterRule::Expression(expression)) => core.word(evaluated(&expression, Some(cfa))?),
            Some(RegisterRule::ValExpression(expression)) => evaluated(&expression, Some(cfa)),
            None | Some(RegisterRule::SameValue) => own(number),
            Some(_) => None,
        };
        let mut callers: Vec<_> = (0..registers.len() as u16).map(value).collect();
        let sp = self.arch.stack_pointer();
        // On s390x a rule restores the stack pointer. Elsewhere it is the CFA.
        if self.arch != Arch::S390x {
            callers[usize::from(sp.0)] = Some(cfa);
        }
        let pc = value(return_column.0).expect("the return address");
        Caller::Frame { pc, sp: callers[usize::from(sp.0)].expect("the stack pointer"), registers: callers }
    }
}
