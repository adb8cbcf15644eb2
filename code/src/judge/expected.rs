//! A row, prepared for the comparison with many states that agree with it.

use cfipack_format::{Arch, Cfa, Register, Rule};

use crate::instruction::{Index, callee_saved, callee_saved_bits, index_of, register_of};
use crate::instructions::Instructions;
use crate::rows::FullRow;
use crate::state::State;
use crate::value::Value;

/// What a row expects of states.
pub(super) struct Expected<'r> {
    pub row: FullRow<'r>,
    arch: Arch,
    /// The registers, by their bits, on which the comparison depends.
    registers: u64,
    /// True if rules depend on registers beside those.
    is_odd: bool,
    /// The register that gives the CFA, and its place; none for a row that is compared in full.
    cfa: Option<(Index, i32)>,
    /// Callee-saved registers, and that of the return address, that keep their values, by their bits.
    kept: u64,
}

impl<'r> Expected<'r> {
    pub(super) fn new(arch: Arch, row: FullRow<'r>) -> Self {
        let base = match row.row.cfa {
            Cfa::Register { register, .. } | Cfa::Memory { register, .. } => index_of(arch, register),
            Cfa::Undefined | Cfa::Expression => None,
        };
        let saved = callee_saved_bits(arch);
        let named = [index_of(arch, arch.stack_pointer()), index_of(arch, arch.return_address()), base];
        let registers = named.into_iter().flatten().fold(saved, |bits, index| bits | 1 << index);
        let is_odd = !row.saved.iter().all(|(_, rule)| matches!(rule, Rule::Cfa(_)));
        let is_usual = |rule| matches!(rule, Rule::SameValue | Rule::Cfa(_));
        let is_plain =
            !is_odd && !row.row.signed && is_usual(row.row.return_address) && is_usual(row.row.frame_pointer);
        let cfa = match row.row.cfa {
            Cfa::Register { offset, .. } => {
                let place = offset.checked_neg().and_then(|place| i32::try_from(place).ok());
                base.zip(place).filter(|_| is_plain)
            }
            _ => None,
        };
        let link = index_of(arch, arch.return_address());
        let all = callee_saved(arch).iter().copied().chain(link);
        let kept = all.filter(|index| row.rule(arch, register_of(*index)) == Rule::SameValue);
        let kept = kept.fold(0, |bits, index| bits | 1 << index);
        Self { row, arch, registers, is_odd, cfa, kept }
    }

    /// Returns whether an instruction can change what the row is about.
    pub(super) fn depends_on(&self, all: &Instructions, index: usize) -> bool {
        self.is_odd || Instructions::affects(&all.as_slice()[index], self.registers)
    }

    /// Returns whether everything in a state is as the row has it. False may mean that it is only not seen here.
    pub(super) fn is_met_by(&self, state: &State) -> bool {
        let Some((base, place)) = self.cfa else { return false };
        let is_stored = |register: Register, rule| match rule {
            Rule::Cfa(offset) => state.slot(offset) == Value::Caller(register),
            _ => false,
        };
        state.at(base) == Value::Cfa(place)
            && state.keeps(self.kept)
            && self.row.rules(self.arch).all(|(register, rule)| is_stored(register, rule))
    }
}
