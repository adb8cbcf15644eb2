//! The rules of the registers that an encoding may have to restore, beside the frame pointer and
//! the return address.

use cfipack_format::compact_unwind::callee_saved;
use cfipack_format::{Arch, Register, Rule};

use crate::cfi::Registers;

/// The most registers an encoding can restore: arm64's x19 to x28 and d8 to d15.
const SLOTS: usize = 18;

/// arm64's first callee-saved general register, and its first D register.
const X19: u16 = 19;
const D8: u16 = 72;

/// Where a callee-saved register is, as one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(i32);

impl Slot {
    /// Where it was on entry: no rule.
    const UNTOUCHED: Self = Self(i32::MAX);
    /// Where no encoding can say.
    const ELSEWHERE: Self = Self(i32::MIN);

    fn of(rule: Rule) -> Self {
        match rule {
            Rule::SameValue => Self::UNTOUCHED,
            Rule::Cfa(offset) => match i32::try_from(offset) {
                Ok(offset) if offset != i32::MAX => Self(offset),
                _ => Self::ELSEWHERE,
            },
            _ => Self::ELSEWHERE,
        }
    }
}

/// Registers and where a function saved them, as far as the CFI has said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SavedRegisters {
    slots: [Slot; SLOTS],
    /// Registers that no encoding restores and that are saved, or otherwise not where they were:
    /// a bit each, the highest one for all from 127 on.
    foreign: u128,
    arch: Arch,
    /// Whether the caller's stack pointer is something else than the CFA.
    pub(super) stack_pointer_is_not_cfa: bool,
}

impl Registers for SavedRegisters {
    fn at_entry(arch: Arch) -> Self {
        Self { slots: [Slot::UNTOUCHED; SLOTS], foreign: 0, arch, stack_pointer_is_not_cfa: false }
    }

    #[inline]
    fn set(&mut self, register: Register, rule: Rule) -> bool {
        if let Some(slot) = self.slot_mut(register) {
            *slot = Slot::of(rule);
        } else if register == self.arch.stack_pointer() {
            self.stack_pointer_is_not_cfa = !matches!(rule, Rule::SameValue | Rule::ValCfa(0));
        } else {
            // What a call may change anyway need not be found again.
            let lost = matches!(rule, Rule::SameValue | Rule::Undefined);
            self.set_foreign(register, !lost);
        }
        true
    }

    fn ignored(&self, _arch: Arch) -> u64 {
        0
    }

    #[inline]
    fn restore(&mut self, register: Register, initial: &Self) -> bool {
        if let Some(slot) = self.slot_mut(register) {
            let initial = initial.index(register).and_then(|index| initial.slots.get(index));
            *slot = initial.copied().unwrap_or(Slot::UNTOUCHED);
        } else if register == self.arch.stack_pointer() {
            self.stack_pointer_is_not_cfa = initial.stack_pointer_is_not_cfa;
        } else {
            self.set_foreign(register, initial.foreign & foreign_bit(register) != 0);
        }
        true
    }
}

impl SavedRegisters {
    /// Whether every register is where `body` has it, or untouched.
    #[inline]
    pub(super) fn is_part_of(&self, body: &Self) -> bool {
        self.foreign & !body.foreign == 0
            && self.slots.iter().zip(&body.slots).all(|(own, other)| own == other || *own == Slot::UNTOUCHED)
    }

    /// The offset from the CFA at which a register is saved; none if it is untouched.
    pub(super) fn offset_of(&self, register: Register) -> Option<i32> {
        let slot = self.slots.get(self.index(register)?)?;
        (*slot != Slot::UNTOUCHED).then_some(slot.0)
    }

    /// A register that is where no encoding can say.
    pub(super) fn unsayable(&self) -> Option<Register> {
        if self.foreign != 0 {
            return Some(Register(self.foreign.trailing_zeros() as u16));
        }
        let index = self.slots.iter().position(|slot| *slot == Slot::ELSEWHERE)?;
        Some(self.register(index))
    }

    /// How many registers are saved.
    pub(super) fn count(&self) -> usize {
        self.slots.iter().filter(|slot| **slot != Slot::UNTOUCHED).count()
    }

    fn register(&self, index: usize) -> Register {
        match callee_saved(self.arch) {
            Some(registers) => registers[index % registers.len()],
            None if index < 10 => Register(X19 + index as u16),
            None => Register(D8 + index as u16 - 10),
        }
    }

    #[inline]
    fn index(&self, Register(number): Register) -> Option<usize> {
        match (self.arch, number) {
            (Arch::Amd64, 3) => Some(0),
            (Arch::Amd64, 12..=15) => Some(usize::from(number) - 11),
            (Arch::I386, 3) => Some(0),
            (Arch::I386, 1 | 2) => Some(usize::from(number)),
            (Arch::I386, 7) => Some(3),
            (Arch::I386, 6) => Some(4),
            (Arch::Amd64 | Arch::I386, _) => None,
            (_, X19..=28) => Some(usize::from(number - X19)),
            (_, D8..=79) => Some(usize::from(number - D8) + 10),
            _ => None,
        }
    }

    #[inline]
    fn slot_mut(&mut self, register: Register) -> Option<&mut Slot> {
        let index = self.index(register)?;
        self.slots.get_mut(index)
    }

    fn set_foreign(&mut self, register: Register, saved: bool) {
        let bit = foreign_bit(register);
        if saved {
            self.foreign |= bit;
        } else if register.0 < 127 {
            self.foreign &= !bit;
        }
    }
}

fn foreign_bit(register: Register) -> u128 {
    1 << register.0.min(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_callee_saved_register_has_a_slot_of_its_own() {
        for arch in [Arch::Amd64, Arch::I386] {
            let saved = SavedRegisters::at_entry(arch);
            for (index, register) in callee_saved(arch).unwrap().into_iter().enumerate().take(5) {
                assert_eq!((saved.index(register), saved.register(index)), (Some(index), register));
            }
            assert_eq!(saved.index(arch.frame_pointer()), None);
        }
        let saved = SavedRegisters::at_entry(Arch::Aarch64);
        let indices = (0..200).filter_map(|number| saved.index(Register(number)));
        assert!(indices.eq(0..SLOTS));
        for index in 0..SLOTS {
            assert_eq!(saved.index(saved.register(index)), Some(index));
        }
    }

    #[test]
    fn registers_that_no_encoding_restores() {
        let mut saved = SavedRegisters::at_entry(Arch::Amd64);
        let (entry, rcx, xmm120) = (saved, Register(2), Register(137));
        saved.set(rcx, Rule::Undefined);
        assert_eq!(saved.unsayable(), None);
        saved.set(rcx, Rule::Cfa(-16));
        assert_eq!(saved.unsayable(), Some(rcx));
        assert!(entry.is_part_of(&saved) && !saved.is_part_of(&entry));
        saved.restore(rcx, &entry);
        assert_eq!(saved, entry);
        saved.set(xmm120, Rule::Cfa(-16));
        saved.set(Register(130), Rule::SameValue);
        assert_eq!(saved.unsayable(), Some(Register(127)));
    }
}
