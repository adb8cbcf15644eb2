//! A fast path: a row in a form that is quickly compared with many states that agree with it.

use cfipack_format::{Arch, Cfa, Rule};

use crate::instruction::{Index, OTHER, callee_saved_bits, index_of};
use crate::rows::FullRow;
use crate::state::State;
use crate::value::{Place, Value};

/// The most slots of a row that are compared here. This is enough for x86 and for most functions of AArch64.
const MAX_STORED: usize = 12;

/// The registers and slots that a state must have to agree with a row.
pub(super) struct Expected<'r> {
    pub row: FullRow<'r>,
    /// The registers that the comparison depends on, as bits.
    registers: u64,
    /// True if some rules depend on further registers.
    is_odd: bool,
    /// The register that the CFA is based on, and the register's place relative to the CFA. `None` if the row always
    /// needs the full comparison.
    cfa: Option<(Index, i32)>,
    /// The slots that rules mention, ascending, with their expected values.
    stored: [(Place, Value); MAX_STORED],
    num_stored: usize,
    /// The stack pointer, and the number of bytes below it that no signal overwrites.
    stack: (Option<Index>, i64),
    /// The registers that must still have the caller's value, as bits.
    kept: u64,
}

impl<'r> Expected<'r> {
    pub(super) fn new(arch: Arch, row: FullRow<'r>, red_zone: u32) -> Self {
        let base = match row.row.cfa {
            Cfa::Register { register, .. } | Cfa::Memory { register, .. } => index_of(arch, register),
            Cfa::Undefined | Cfa::Expression => None,
        };
        let saved = callee_saved_bits(arch);
        let stack = (index_of(arch, arch.stack_pointer()), i64::from(red_zone));
        let named = [stack.0, index_of(arch, arch.return_address()), base];
        let registers = named.into_iter().flatten().fold(saved, |bits, index| bits | 1 << index);
        let is_odd = !row.saved.iter().all(|(_, rule)| matches!(rule, Rule::Cfa(_)));
        // The frame pointer and the return address have their own fields in a row. A rule for them in `saved` is not
        // usual.
        let named = [arch.frame_pointer(), arch.return_address()];
        let is_plain = !row.saved.iter().any(|(register, _)| named.contains(register))
            && !is_odd
            && !row.row.signed
            && matches!(row.row.return_address, Rule::SameValue | Rule::Cfa(_))
            && matches!(row.row.frame_pointer, Rule::SameValue | Rule::Cfa(_));
        let cfa = match row.row.cfa {
            Cfa::Register { offset, .. } => {
                let place = offset.checked_neg().and_then(|place| i32::try_from(place).ok());
                base.zip(place).filter(|_| is_plain)
            }
            _ => None,
        };
        let mut kept = index_of(arch, arch.return_address()).map_or(saved, |link| saved | 1 << link);
        let mut stored = [(Place::new(None, 0), Value::Unknown); MAX_STORED];
        let mut num_stored = 0;
        let rules = row.rules(arch).filter(|_| cfa.is_some());
        for (register, rule) in rules {
            let offset = match rule {
                Rule::Cfa(offset) => i32::try_from(offset).ok(),
                _ => None,
            };
            let (Some(slot), Some(offset)) = (stored.get_mut(num_stored), offset) else {
                return Self { row, registers, is_odd, cfa: None, stored, num_stored: 0, stack, kept };
            };
            kept &= index_of(arch, register).map_or(u64::MAX, |index| !(1 << index));
            *slot = (Place::new(None, offset), Value::Caller(register));
            num_stored += 1;
        }
        stored[..num_stored].sort_unstable_by_key(|slot| slot.0);
        Self { row, registers, is_odd, cfa, stored, num_stored, stack, kept }
    }

    /// Returns whether an instruction that [affects](crate::Instruction) these registers can change anything that the row
    /// describes.
    pub(super) fn depends_on(&self, affected: u64) -> bool {
        self.is_odd || affected & (self.registers | OTHER) != 0
    }

    /// Returns whether a state agrees with the row in everything. If this returns false, only the full comparison can
    /// tell.
    pub(super) fn is_met_by(&self, state: &State) -> bool {
        let Some((base, place)) = self.cfa else { return false };
        state.at(base) == Value::Cfa(place)
            && state.keeps(self.kept)
            && state.has_slots(&self.stored[..self.num_stored])
            && !self.is_overwritten(state)
    }

    /// Returns whether a signal can overwrite the lowest slot.
    fn is_overwritten(&self, state: &State) -> bool {
        let (Some(stack), red_zone) = self.stack else { return false };
        let Some((lowest, _)) = self.stored[..self.num_stored].first() else { return false };
        matches!(state.at(stack), Value::Cfa(top) if i64::from(lowest.offset()) < i64::from(top) - red_zone)
    }
}
