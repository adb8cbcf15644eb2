//! Recognises the steps into a function's body and out of it.

use cfipack_format::{Arch, Cfa, Register, Row, Rule, Saved};

/// Returns whether a row of the CFI is the row of the body: it unwinds alike, and saves the same registers in the same
/// places.
pub(super) fn is_body(arch: Arch, row: &Row, registers: &[(Register, Rule)], body: &(Row, Saved)) -> bool {
    crate::same_row::same_row(row, &body.0, arch)
        && registers.len() == body.1.as_slice().len()
        && are_saved_there(registers, &body.1)
}

/// Returns whether a row of the CFI is a step between a function's entry and its body. The stack must be no deeper than
/// in the body, and each saved register must be saved where the body has it. A signed return address is not signed yet.
pub(super) fn is_step(arch: Arch, row: &Row, registers: &[(Register, Rule)], body: &(Row, Saved)) -> bool {
    let entry = Row::at_entry(arch);
    let (Cfa::Register { register, offset }, Cfa::Register { register: base, offset: depth }) =
        (row.cfa, body.0.cfa)
    else {
        return false;
    };
    let saves_frame_pointer = row.frame_pointer == body.0.frame_pointer;
    let stack = if register == arch.stack_pointer() {
        // At the entry, the CFA is the stack pointer. If the call has pushed a return address, it is above this
        // address.
        let at_entry = match entry.return_address {
            Rule::Cfa(below) => -below,
            _ => 0,
        };
        // x86 sets its frame pointer before the stack grows below it. arm64 sets it after the stack has grown.
        let is_bounded = base == register || at_entry != 0;
        offset >= at_entry && (!is_bounded || offset <= depth)
    } else {
        row.cfa == body.0.cfa && saves_frame_pointer
    };
    stack
        && (saves_frame_pointer || row.frame_pointer == Rule::SameValue)
        && (row.return_address == body.0.return_address || row.return_address == entry.return_address)
        && (!row.signed || body.0.signed)
        && are_saved_there(registers, &body.1)
}

fn are_saved_there(registers: &[(Register, Rule)], saved: &Saved) -> bool {
    registers.iter().all(|&(register, rule)| {
        saved.offset_of(register).is_some_and(|offset| rule == Rule::Cfa(offset.into()))
    })
}
