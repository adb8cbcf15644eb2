//! Follows indirect jumps through their tables.

use cfipack_format::{Address, Family};

use super::super::{Analysis, Doubt, Exit};
use super::{Bytes, Restart, Run};
use crate::aarch64;
use crate::instruction::Op;
use crate::instructions::Code;
use crate::state::State;
use crate::table::JumpTable;

/// Returns whether the code at an address is marked as a target of indirect jumps (`bti j` on AArch64).
fn is_marked(analysis: &Analysis<'_>, target: Address, memory: Bytes<'_>) -> bool {
    let Code { arch, start, bytes, .. } = analysis.code;
    let at = usize::try_from(target.0.wrapping_sub(start.0)).ok();
    let code = at.and_then(|at| bytes.get(at..)).unwrap_or_else(|| memory.at(target));
    match (arch.family(), code.first_chunk()) {
        (Family::Aarch64, Some(word)) => aarch64::is_jump_target(*word),
        (Family::Aarch64, None) | (Family::X86 | Family::S390x | Family::Riscv, _) => false,
    }
}

impl Run<'_> {
    /// Follows an indirect jump through its table. Without a table the jump is taken for a tail call if the frame is
    /// gone.
    pub(super) fn follow_table(
        &mut self,
        analysis: &mut Analysis<'_>,
        from: usize,
        table: Option<JumpTable>,
        state: &State,
        memory: Bytes<'_>,
    ) -> Result<(), Restart> {
        let arch = analysis.code.arch;
        let (mut found, mut is_guarded) = (0, false);
        if let Some(table) = table {
            let end = self.end_of_table(analysis, &table, memory);
            let targets = table.targets(memory, arch.endian());
            for target in targets.take(end.map_or(usize::MAX, |end| table.count_up_to(end))) {
                let is_inside = analysis.is_inside(target) && analysis.index_of(target).is_some();
                if self.entries_left == 0 || (!is_inside && (!table.is_limited() || found == 0)) {
                    break;
                }
                // If the first target of a table is marked, then all targets are: the processor refuses jumps to
                // unmarked code.
                if found == 0 {
                    is_guarded = is_marked(analysis, target, memory);
                } else if is_guarded && !is_marked(analysis, target, memory) {
                    break;
                }
                self.entries_left -= 1;
                found += 1;
                self.follow_jump(analysis, from, (Some(target), true), state)?;
            }
        }
        if found == 0 {
            if state.has_frame(arch) {
                analysis.doubts.insert((Doubt::IndirectJump, analysis.instructions.offset(from)));
            } else {
                analysis.exits.push(Exit { index: from, target: None, is_from_table: false });
            }
        }
        Ok(())
    }

    /// Returns the lowest address after the table that some instruction mentions. Most often another table starts
    /// there, of this function or of another one. A table with a limit may end there, too: the limit may be that of a
    /// value from which an instruction subtracts the first case.
    fn end_of_table(&mut self, analysis: &Analysis<'_>, table: &JumpTable, memory: Bytes<'_>) -> Option<u64> {
        let others = memory.next_data(Address(table.address())).map(|address| address.0);
        if table.is_limited() {
            return others;
        }
        let constants = self.constants.get_or_insert_with(|| {
            let mut constants = Vec::new();
            let mut steps = analysis.instructions.steps(0);
            while let Some((_, instruction, ops)) = steps.next() {
                for op in instruction.effects(ops) {
                    if let Op::Constant { value, .. } = op {
                        constants.push(*value);
                    }
                }
            }
            constants.sort_unstable();
            constants
        });
        let own = constants.get(constants.partition_point(|address| *address <= table.address())).copied();
        own.into_iter().chain(others).min()
    }
}
