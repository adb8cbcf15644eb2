//! What a row makes of a frame, by values: the counterpart of [`by_cfi`](crate::by_cfi).

use cfipack_format::{Arch, Cfa, Row, Rule};

use crate::by_cfi::{Registers, Stop};

/// The caller's frame, as far as a table says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The canonical frame address.
    pub cfa: u64,
    /// The return address as stored.
    pub return_address: u64,
    /// The caller's frame pointer; `None` if it is lost.
    pub frame_pointer: Option<u64>,
}

/// Unwinds one frame by a row.
pub fn caller(
    row: &Row,
    arch: Arch,
    registers: &Registers,
    memory: &dyn Fn(u64) -> Option<u64>,
) -> Result<Caller, Stop> {
    let own = |number: u16| registers.get(usize::from(number)).copied().flatten().ok_or(Stop::Lost);
    let word = |address: u64| memory(address).ok_or(Stop::Lost);
    if row.return_address == Rule::Undefined {
        return Err(Stop::Outermost);
    }
    let cfa = match row.cfa {
        Cfa::Register { register, offset } => own(register.0)?.wrapping_add_signed(offset),
        Cfa::Memory { register, offset } => word(own(register.0)?.wrapping_add_signed(offset))?,
        Cfa::Undefined | Cfa::Expression => return Err(Stop::NoRow),
    };
    let find = |rule: Rule, same: u16| match rule {
        Rule::SameValue => own(same),
        Rule::Cfa(offset) => word(cfa.wrapping_add_signed(offset)),
        Rule::Register { register, offset } => Ok(own(register.0)?.wrapping_add_signed(offset)),
        Rule::Memory { register, offset } => word(own(register.0)?.wrapping_add_signed(offset)),
        Rule::Undefined | Rule::ValCfa(_) | Rule::Expression => Err(Stop::Lost),
    };
    let return_address = find(row.return_address, arch.return_address().0)?;
    let frame_pointer = find(row.frame_pointer, arch.frame_pointer().0).ok();
    Ok(Caller { cfa, return_address, frame_pointer })
}
