//! The state of rows that gas 2.47 tracks, as far as it decides whether gas omits a function.

use cfipack_format::{Arch, Register, Row, Rule};

use crate::cfi::Instruction;

/// The state of a row that gas tracks.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GasState {
    /// The register that the CFA is counted from.
    pub(crate) cfa_base: Option<Register>,
    /// True if the frame pointer is on the stack.
    pub(crate) fp_on_stack: bool,
    /// True if the return address is on the stack. gas still believes this after the return address has become
    /// undefined.
    pub(crate) ra_on_stack: bool,
}

/// The states of a function's rows in gas.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GasStates {
    /// The state of the current row.
    pub(crate) current: GasState,
    /// The state of the first row, if a row has ended. gas restores from this state and not from the CIE.
    first: Option<GasState>,
    /// The state of the row that was remembered last. gas has a single slot for it, and restoring does not
    /// clear the slot.
    remembered: GasState,
}

impl GasStates {
    /// Follows the end of a row.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        self.first.get_or_insert(self.current);
    }

    /// Follows an instruction in a function whose CIE makes the row `initial`.
    pub(crate) fn follow(&mut self, arch: Arch, instruction: Instruction<'_>, initial: &Row) {
        match instruction {
            Instruction::DefCfa(register, _) | Instruction::DefCfaRegister(register) => {
                self.current.cfa_base = Some(register);
            }
            // gas accepts no other expression.
            Instruction::DefCfaExpression(_) => self.current.cfa_base = Some(arch.frame_pointer()),
            Instruction::Offset(register, _) => self.set_on_stack(arch, register, true),
            Instruction::SameValue(register) => self.set_on_stack(arch, register, false),
            Instruction::Restore(register) => {
                let first = self.first.unwrap_or(GasState {
                    fp_on_stack: matches!(initial.frame_pointer, Rule::Cfa(_)),
                    ra_on_stack: matches!(initial.return_address, Rule::Cfa(_)),
                    ..self.current
                });
                let is_fp = register == arch.frame_pointer();
                self.set_on_stack(arch, register, if is_fp { first.fp_on_stack } else { first.ra_on_stack });
            }
            Instruction::RememberState => self.remembered = self.current,
            Instruction::RestoreState => self.current = self.remembered,
            _ => {}
        }
    }

    fn set_on_stack(&mut self, arch: Arch, register: Register, on_stack: bool) {
        if register == arch.frame_pointer() {
            self.current.fp_on_stack = on_stack;
        } else if register == arch.return_address() {
            self.current.ra_on_stack = on_stack;
        }
    }
}
