//! Effects of instructions in gas 2.47: some end rows, and some make gas omit the function.

use cfipack_format::{Arch, Register, Row, Rule};

use crate::Reason;
use crate::cfi::Instruction;

/// The effect of an instruction in gas.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GasAction {
    /// No effect on rows.
    None,
    /// The row ends at the next advance.
    Touch,
    /// No effect on rows, but the function's FDE becomes flex.
    Flex,
}

/// Returns the effect of an instruction in gas, or the reason why gas omits the function. `cfa_base` is the
/// register that the CFA is counted from. `begun` is true if the function has a row.
pub(crate) fn gas_action(
    arch: Arch,
    instruction: Instruction<'_>,
    cfa_base: Option<Register>,
    begun: bool,
) -> Result<GasAction, Reason> {
    match instruction {
        Instruction::Nop | Instruction::Advance(_) | Instruction::SetLocation(_) => Ok(GasAction::None),
        Instruction::DefCfa(register, _) | Instruction::DefCfaRegister(register) => {
            cfa_register(arch, register).ok_or(Reason::GasRegister(register))
        }
        Instruction::DefCfaOffset(_) | Instruction::RestoreState => Ok(GasAction::Touch),
        Instruction::NegateRaState if arch.is_aarch64() => Ok(GasAction::Touch),
        Instruction::NegateRaState => Err(Reason::GasInstruction(0x2d)),
        Instruction::SetRaState(..) => Err(Reason::GasInstruction(0x2b)),
        // A load from rbp with an offset of a byte. GCC writes this if it realigns the stack.
        Instruction::DefCfaExpression([0x76, _, 0x06]) if loads_frame_pointer(arch) => Ok(GasAction::Flex),
        Instruction::DefCfaExpression(_) => Err(Reason::GasInstruction(0x0f)),
        Instruction::RememberState if !begun => Err(Reason::GasInstruction(0x0a)),
        Instruction::ArgsSize(size)
            if size != 0 && (cfa_base != Some(arch.frame_pointer()) || size >= 0x80) =>
        {
            Err(Reason::GasInstruction(0x2e))
        }
        Instruction::RememberState | Instruction::ArgsSize(_) => Ok(GasAction::None),
        Instruction::Expression(register, block) => {
            expression(arch, register, block, cfa_base).ok_or(Reason::GasInstruction(0x10))
        }
        Instruction::ValExpression(..) => Err(Reason::GasInstruction(0x16)),
        Instruction::Offset(register, _)
        | Instruction::ValOffset(register, _)
        | Instruction::Register(register, _)
        | Instruction::Restore(register)
        | Instruction::SameValue(register)
        | Instruction::Undefined(register) => {
            rule(arch, register, instruction).ok_or(Reason::GasRegister(register))
        }
    }
}

/// Returns whether gas takes a load relative to register 6, rbp, for the CFA.
fn loads_frame_pointer(arch: Arch) -> bool {
    match arch {
        Arch::Amd64 => true,
        Arch::I386 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => false,
    }
}

/// Returns whether the return address has no fixed place in the ABI. If it has, gas ignores most rules for it.
fn tracks_return_address(arch: Arch) -> bool {
    arch.pushed_by_call() == 0
}

/// Returns the effect of another register for the CFA. `None` means that gas refuses it.
fn cfa_register(arch: Arch, register: Register) -> Option<GasAction> {
    if register == arch.stack_pointer() || register == arch.frame_pointer() {
        Some(GasAction::Touch)
    } else if arch.is_aarch64() {
        None
    } else {
        Some(GasAction::Flex)
    }
}

/// Returns the effect of a rule that `instruction` sets for a register. `None` means that gas refuses it.
fn rule(arch: Arch, register: Register, instruction: Instruction<'_>) -> Option<GasAction> {
    if register == arch.frame_pointer() {
        frame_pointer_rule(arch, instruction)
    } else if register == arch.return_address() {
        return_address_rule(arch, instruction)
    } else if register == arch.stack_pointer() {
        stack_pointer_rule(arch, instruction)
    } else {
        Some(GasAction::None)
    }
}

/// Returns the effect of a rule for the frame pointer. A row has its place on the stack; a flex FDE can also
/// name a register.
fn frame_pointer_rule(arch: Arch, instruction: Instruction<'_>) -> Option<GasAction> {
    match instruction {
        Instruction::Undefined(_) | Instruction::ValOffset(..) => None,
        Instruction::Register(..) if arch.is_aarch64() => None,
        Instruction::Register(..) => Some(GasAction::Flex),
        _ => Some(GasAction::Touch),
    }
}

/// Returns the effect of a rule for the return address.
fn return_address_rule(arch: Arch, instruction: Instruction<'_>) -> Option<GasAction> {
    let tracked = tracks_return_address(arch);
    match instruction {
        Instruction::Undefined(_) => Some(GasAction::Touch),
        Instruction::Register(..) if arch.is_aarch64() => None,
        Instruction::Register(..) => Some(GasAction::Flex),
        Instruction::ValOffset(..) if tracked => None,
        Instruction::Offset(_, offset) if !tracked => {
            let in_its_place = Rule::Cfa(offset) == Row::at_entry(arch).return_address;
            Some(if in_its_place { GasAction::Touch } else { GasAction::Flex })
        }
        _ => Some(if tracked { GasAction::Touch } else { GasAction::None }),
    }
}

/// Returns the effect of a rule for the stack pointer. In a row, the caller's stack pointer is the CFA.
fn stack_pointer_rule(arch: Arch, instruction: Instruction<'_>) -> Option<GasAction> {
    match instruction {
        Instruction::Undefined(_) => None,
        Instruction::Register(..) if !arch.saves_stack_pointer() => None,
        Instruction::ValOffset(_, offset) if offset != arch.stack_pointer_from_cfa() => None,
        _ => Some(GasAction::None),
    }
}

/// Returns the effect of `DW_CFA_expression`. gas takes only offsets of a byte from a register. `None` means
/// that gas refuses the expression.
fn expression(arch: Arch, register: Register, block: &[u8], cfa_base: Option<Register>) -> Option<GasAction> {
    if block.len() != 2 || register.0 >= 0x80 {
        return None;
    }
    if register == arch.frame_pointer() {
        return Some(GasAction::Flex);
    }
    let is_return_address = register == arch.return_address() && tracks_return_address(arch);
    if register == arch.stack_pointer() || is_return_address || Some(register) == cfa_base {
        return None;
    }
    Some(GasAction::None)
}
