//! The rules of the registers that an encoding may restore, beside the frame pointer and the return address.

use cfipack_format::compact_unwind::callee_saved;
use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Register, Rule, Saved};

use crate::cfi::Registers;

const NO_SLOT: u8 = u8::MAX;

/// Returns for each DWARF number of an x86 register the register's number in encodings, less 1.
const fn slots(arch: Arch) -> [u8; 16] {
    let mut slots = [NO_SLOT; 16];
    let Some(registers) = callee_saved(arch) else { return slots };
    let mut index = 0;
    // The last register is the frame pointer. Its rule is in the row.
    while index < registers.len() - 1 {
        slots[registers[index].0 as usize] = index as u8;
        index += 1;
    }
    slots
}

/// The DWARF numbers of arm64's first callee-saved general register and first callee-saved D register.
const X19: u16 = 19;
const D8: u16 = 72;

/// The place of a callee-saved register, as an offset from the CFA in bytes. Encodings can only represent places that
/// are near.
type Slot = i16;

/// The register is untouched: it has no rule, as at the entry.
const UNTOUCHED: Slot = 0;
/// A place that no encoding can represent.
const ELSEWHERE: Slot = Slot::MIN;

fn slot_of(rule: Rule) -> Slot {
    match rule {
        Rule::SameValue => UNTOUCHED,
        // The memory at the CFA belongs to the caller.
        Rule::Cfa(offset) => match Slot::try_from(offset) {
            Ok(slot) if slot != 0 => slot,
            _ => ELSEWHERE,
        },
        _ => ELSEWHERE,
    }
}

/// The registers that a function has saved so far, and their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SavedRegisters {
    slots: [Slot; Saved::CAPACITY],
    /// A bit for each slot that is not untouched.
    saved: u32,
    /// A bit for each register that no encoding restores, and that the function has saved or moved. The
    /// highest bit stands for all registers from 63 on.
    foreign: u64,
    arch: Arch,
    /// True if the caller's stack pointer is not the CFA.
    pub(super) stack_pointer_is_not_cfa: bool,
}

impl Registers for SavedRegisters {
    fn at_entry(arch: Arch) -> Self {
        Self {
            slots: [UNTOUCHED; Saved::CAPACITY],
            saved: 0,
            foreign: 0,
            arch,
            stack_pointer_is_not_cfa: false,
        }
    }

    #[inline(always)]
    fn set(&mut self, register: Register, rule: Rule) -> bool {
        if let Some(index) = self.index(register) {
            self.set_slot(index, slot_of(rule));
        } else if register == self.arch.stack_pointer() {
            self.stack_pointer_is_not_cfa = rule != Rule::ValCfa(0);
        } else {
            // A register that a call may change does not have to be restored.
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
        if let Some(index) = self.index(register) {
            self.set_slot(index, initial.slots.get(index).copied().unwrap_or(UNTOUCHED));
        } else if register == self.arch.stack_pointer() {
            self.stack_pointer_is_not_cfa = initial.stack_pointer_is_not_cfa;
        } else {
            self.set_foreign(register, initial.foreign & foreign_bit(register) != 0);
        }
        true
    }
}

impl SavedRegisters {
    /// Returns whether every register is untouched or in the same place as in `body`.
    #[inline]
    pub(super) fn is_part_of(&self, body: &Self) -> bool {
        self.foreign & !body.foreign == 0
            && self.saved & !body.saved == 0
            && (self.saved == 0 || self.slots.iter().zip(&body.slots).all(|(o, b)| o == b || *o == UNTOUCHED))
    }

    /// Returns the offset from the CFA at which a register is saved, or `None` if it is untouched. The index on x86
    /// is the register's number in encodings, counted from 0. On arm64 the indexes are x19 to x28, then d8 to d15.
    #[inline]
    pub(super) fn offset_at(&self, index: usize) -> Option<i64> {
        let slot = *self.slots.get(index)?;
        (slot != UNTOUCHED).then_some(slot.into())
    }

    /// Returns a register in a place that no encoding can represent.
    pub(super) fn unrepresentable(&self) -> Option<Register> {
        if self.foreign != 0 {
            return Some(Register(self.foreign.trailing_zeros() as u16));
        }
        if self.saved == 0 {
            return None;
        }
        let index = self.slots.iter().position(|slot| *slot == ELSEWHERE)?;
        Some(self.register(index))
    }

    /// Returns the first register that is saved.
    pub(super) fn first(&self) -> Option<Register> {
        (self.saved != 0).then(|| self.register(self.saved.trailing_zeros().to_usize()))
    }

    /// Returns the number of saved registers.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.saved.count_ones().to_usize()
    }

    fn register(&self, index: usize) -> Register {
        match callee_saved(self.arch) {
            Some(registers) => registers[index % registers.len()],
            None if index < 10 => Register(X19 + index as u16),
            None => Register(D8 + index as u16 - 10),
        }
    }

    #[inline(always)]
    fn index(&self, Register(number): Register) -> Option<usize> {
        let slots = match self.arch {
            Arch::Amd64 => const { &slots(Arch::Amd64) },
            Arch::I386 => const { &slots(Arch::I386) },
            Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => {
                return match number {
                    X19..=28 => Some(usize::from(number - X19)),
                    D8..=79 => Some(usize::from(number - D8) + 10),
                    _ => None,
                };
            }
        };
        let slot = *slots.get(usize::from(number))?;
        (slot != NO_SLOT).then_some(slot.into())
    }

    #[inline]
    fn set_slot(&mut self, index: usize, value: Slot) {
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = value;
            self.saved = self.saved & !(1 << index) | u32::from(value != UNTOUCHED) << index;
        }
    }

    fn set_foreign(&mut self, register: Register, saved: bool) {
        let bit = foreign_bit(register);
        if saved {
            self.foreign |= bit;
        } else if register.0 < 63 {
            self.foreign &= !bit;
        }
    }
}

fn foreign_bit(register: Register) -> u64 {
    1 << register.0.min(63)
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
        assert!(indices.eq(0..Saved::CAPACITY));
        for index in 0..Saved::CAPACITY {
            assert_eq!(saved.index(saved.register(index)), Some(index));
        }
    }

    #[test]
    fn registers_that_no_encoding_restores() {
        let mut saved = SavedRegisters::at_entry(Arch::Amd64);
        let (entry, rcx, xmm120) = (saved, Register(2), Register(137));
        saved.set(rcx, Rule::Undefined);
        assert_eq!(saved.unrepresentable(), None);
        saved.set(rcx, Rule::Cfa(-16));
        assert_eq!(saved.unrepresentable(), Some(rcx));
        assert!(entry.is_part_of(&saved) && !saved.is_part_of(&entry));
        saved.restore(rcx, &entry);
        assert_eq!(saved, entry);
        saved.set(xmm120, Rule::Cfa(-16));
        saved.set(Register(130), Rule::SameValue);
        assert_eq!(saved.unrepresentable(), Some(Register(63)));
    }
}
