//! Joins the states of two paths that lead to the same instruction.

use cfipack_format::Arch;

use super::{Flags, State};
use crate::instruction::{callee_saved_bits, index_of};
use crate::marks::indexes;
use crate::value::{Place, Value};

/// Returns whether a slot's value stays as well known after a join with another state.
fn stays((place, value): &(Place, Value), other: &State) -> bool {
    value.joined(other.load(*place)) == *value
}

/// Returns the mask of the register that has the return address at the entry, or of bit 63 if no register has it.
fn link_bit(arch: Arch) -> u64 {
    1 << index_of(arch, arch.return_address()).unwrap_or(63)
}

/// The facts of a state that a join with another state loses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// The registers, as bits, of which less is known after the join.
    registers: u64,
    slots: bool,
    flags: bool,
    limit: bool,
}

impl Loss {
    /// Returns whether the join changes anything.
    pub(crate) fn is_any(self) -> bool {
        let Self { registers, slots, flags, limit } = self;
        registers != 0 || slots || flags || limit
    }
}

impl State {
    /// Returns the facts that a join with `other` would lose.
    pub(crate) fn loss(&self, other: &Self) -> Loss {
        let mut registers = self.registers.known() & !other.registers.known();
        for index in indexes(self.registers.known() & other.registers.known()) {
            let own = self.at(index);
            let other = other.at(index);
            registers |= if own == other || own == own.joined(other) { 0 } else { 1 << index };
        }
        Loss {
            registers,
            slots: !other.has_slots(&self.slots) && !self.slots.iter().all(|slot| stays(slot, other)),
            flags: self.flags != other.flags && self.flags != Flags::Unknown,
            limit: self.limit != other.limit && self.limit.is_some(),
        }
    }

    /// Returns whether the state has these slots with these values. The slots must be ascending by place.
    pub(crate) fn has_slots(&self, slots: &[(Place, Value)]) -> bool {
        let mut own = self.slots.iter();
        slots.iter().all(|slot| own.find(|own| own.0 >= slot.0).is_some_and(|own| own == slot))
    }

    /// Returns whether the join would lose the stack pointer or the last place of a caller's register, while both
    /// states know it. Then one of the states most likely comes from a path that is never taken.
    pub(crate) fn is_grave(&self, arch: Arch, loss: Loss, other: &Self) -> bool {
        let stack = arch.stack_pointer();
        if let (Value::Cfa(own), Value::Cfa(other)) = (self.get(arch, stack), other.get(arch, stack))
            && own != other
        {
            return true;
        }
        if loss.registers & (callee_saved_bits(arch) | link_bit(arch)) == 0 && !loss.slots {
            return false;
        }
        let mut joined = self.clone();
        joined.lose(loss, other);
        self.kept(arch) & other.kept(arch) & !joined.kept(arch) & !joined.perhaps(arch) != 0
    }

    /// Joins with `other`, given the [`loss`](Self::loss) of the join.
    pub(crate) fn lose(&mut self, loss: Loss, other: &Self) {
        for index in indexes(loss.registers) {
            self.registers.set(index, self.at(index).joined(other.at(index)));
        }
        if loss.slots {
            self.slots.retain_mut(|(place, value)| {
                *value = value.joined(other.load(*place));
                value.is_followed()
            });
        }
        if loss.flags {
            self.flags = Flags::Unknown;
        }
        if loss.limit {
            self.limit = None;
        }
    }

    /// Returns the callee-saved registers, and [the return address](link_bit), as bits, if the caller's value is in the
    /// register itself or in a slot of the frame.
    fn kept(&self, arch: Arch) -> u64 {
        let link = link_bit(arch);
        let followed = callee_saved_bits(arch) | link;
        let bit = |value: Value| match value {
            Value::Caller(register) => index_of(arch, register).map_or(link, |index| 1 << index),
            Value::Signed => link,
            _ => 0,
        };
        let registers = indexes(followed & self.registers.known());
        let kept = registers.fold(0, |kept, index| kept | bit(self.at(index)) & 1 << index);
        let slots = self.slots.iter().filter(|slot| slot.0.is_in_frame());
        slots.fold(kept, |kept, slot| kept | bit(slot.1) & followed)
    }
}
