//! Decides whether a row is a step to another row.

use cfipack_format::{Arch, Cfa, Family, Row, Rule};

use super::saved::SavedRegisters;
use crate::Reason;

/// Refuses rows that no encoding can represent. Returns the CFA's offset, and whether it is relative to the stack
/// pointer.
pub(super) fn check(arch: Arch, row: &Row, saved: &SavedRegisters) -> Result<(i64, bool), Reason> {
    let cfa = match row.cfa {
        Cfa::Register { register, offset } if register == arch.stack_pointer() => (offset, true),
        // Every function with a frame pointer has the same two words at its top.
        Cfa::Register { register, offset } if register == arch.frame_pointer() => {
            if offset != frame_record_size(arch) {
                return Err(Reason::FrameRecord);
            }
            (offset, false)
        }
        Cfa::Register { register, .. } => return Err(Reason::CfaRegister(register)),
        Cfa::Memory { .. } => return Err(Reason::CfaMemory),
        Cfa::Expression => return Err(Reason::CfaExpression),
        Cfa::Undefined => return Err(Reason::CfaMissing),
    };
    if row.signed {
        return Err(Reason::SignedReturnAddress);
    }
    if saved.stack_pointer_is_not_cfa {
        return Err(Reason::StackPointerRule);
    }
    match row.return_address {
        Rule::Cfa(_) => Ok(cfa),
        rule if rule == Row::at_entry(arch).return_address => Ok(cfa),
        _ => Err(Reason::ReturnAddressRule),
    }
}

/// Returns the distance from the frame pointer to the CFA in bytes. The caller's frame pointer and the return address
/// lie in between. Like arm64, arm64_32 uses 8 bytes for each of the two.
pub(super) const fn frame_record_size(arch: Arch) -> i64 {
    match arch {
        Arch::I386 => 8,
        Arch::Amd64 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => 16,
    }
}

/// Returns whether a row is a step to another row.
pub(super) fn is_step(
    arch: Arch,
    (row, saved): (&Row, &SavedRegisters),
    body: (&Row, &SavedRegisters),
) -> bool {
    let entry = Row::at_entry(arch);
    let same = |one: Rule, other: Rule, on_entry: Rule| one == other || one == on_entry;
    // When the caller's frame pointer is restored, no place relative to the function's own frame pointer is known any
    // more.
    let counts = match row.cfa {
        Cfa::Register { register, .. } if register == arch.frame_pointer() => {
            row.frame_pointer == body.0.frame_pointer
        }
        _ => true,
    };
    counts
        && cfa_is_step_to(arch, row.cfa, body.0.cfa)
        && same(row.frame_pointer, body.0.frame_pointer, entry.frame_pointer)
        && same(row.return_address, body.0.return_address, entry.return_address)
        && saved.is_part_of(body.1)
}

/// Returns whether a step to a body may have this CFA.
fn cfa_is_step_to(arch: Arch, cfa: Cfa, body: Cfa) -> bool {
    let (Cfa::Register { register, offset }, Cfa::Register { register: base, offset: deepest }) = (cfa, body)
    else {
        return false;
    };
    let from_stack_pointer = register == arch.stack_pointer() && offset >= arch.pushed_by_call();
    let limited = limits_stack(arch, base == arch.stack_pointer());
    cfa == body || from_stack_pointer && (!limited || offset <= deepest)
}

/// Returns whether a step to a body uses no more stack than the body's CFA implies. The flag says whether the body's
/// CFA is relative to the stack pointer. X86 pushes the frame pointer first, while arm64 allocates the whole frame at
/// once.
pub(super) fn limits_stack(arch: Arch, from_stack_pointer: bool) -> bool {
    from_stack_pointer
        || match arch.family() {
            Family::X86 => true,
            Family::Aarch64 | Family::S390x | Family::Riscv => false,
        }
}
