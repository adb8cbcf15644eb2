//! Follows calls to the places where they return, and to landing pads.

use std::sync::Arc;

use super::super::{Analysis, Doubt};
use super::{Edge, MAX_ARGUMENTS, Restart, Run};
use crate::instruction::Flow;
use crate::state::State;
use crate::value::Value;

impl Run<'_> {
    /// Follows a call to the place where it returns, and to its landing pad.
    pub(super) fn follow_call(
        &mut self,
        analysis: &mut Analysis<'_>,
        index: usize,
        state: Arc<State>,
    ) -> Result<(), Restart> {
        let offset = analysis.instructions.offset(index);
        let sites = self.ways.call_sites;
        let site = sites.partition_point(|site| site.end <= offset);
        if let Some(site) = sites.get(site).filter(|site| site.start <= offset) {
            let arch = analysis.code.arch;
            let mut landed = self.copied(&state);
            if let (Some(stack), Value::Cfa(own)) = (site.stack, state.get(arch, arch.stack_pointer()))
                && (1..=MAX_ARGUMENTS).contains(&stack.saturating_sub(own))
            {
                Arc::make_mut(&mut landed).set(arch, arch.stack_pointer(), Value::Cfa(stack));
            }
            if let Some(pad) = analysis.index_of(site.landing_pad) {
                self.weaken_at_pad(analysis, pad, Arc::make_mut(&mut landed))?;
            }
            let result = self.follow_jump(analysis, index, (Some(site.landing_pad), false), &landed);
            self.recycle(landed);
            result?;
        }
        if let Some(to) = self.after_split_stack(analysis, index, &state) {
            self.bring(analysis, Edge { from: index, to, is_call: false }, &state)?;
        }
        // A call that is the function's last instruction does not return.
        if let Some(to) = analysis.instructions.after_padding(index)
            && !analysis.noreturn.contains(&index)
            && self.spend(analysis, index, &state)
        {
            match self.stored(state) {
                Some(state) => self.deferred.push_back((index as u32, to as u32, state)),
                None => {
                    analysis.doubts.insert((Doubt::TooLarge, offset));
                }
            }
        }
        Ok(())
    }

    /// Returns the instruction after `call; ret` at a function's entry, if only a jump, or calls and a jump, follow. The
    /// called function is the one that gets more stack for code with split stacks: it calls this instruction, and returns by
    /// `ret`.
    fn after_split_stack(&self, analysis: &Analysis<'_>, call: usize, state: &State) -> Option<usize> {
        let arch = analysis.code.arch;
        if arch.pushed_by_call() == 0 || state.has_frame(arch) {
            return None;
        }
        let mut rest = analysis.instructions.iter_from(call + 1);
        if rest.next()?.flow != Flow::Return {
            return None;
        }
        // With `-pg`, `mcount` is called before the jump.
        let last = rest.find(|one| !matches!(one.flow, Flow::Call(_)))?;
        let is_last = matches!(last.flow, Flow::Jump(Some(target)) if analysis.is_inside(target));
        is_last.then_some(call + 2)
    }

    /// Weakens the state at a landing pad in the places where calls of the same pad disagree.
    fn weaken_at_pad(
        &mut self,
        analysis: &mut Analysis<'_>,
        pad: usize,
        state: &mut State,
    ) -> Result<(), Restart> {
        let arch = analysis.code.arch;
        for (register, slot) in analysis.doubtful.get(&pad).into_iter().flatten() {
            state.doubt(arch, *register, *slot);
        }
        let number = analysis.starts.get(pad);
        let known = analysis.blocks.get(number as usize).and_then(|block| block.state.as_deref());
        let Some(known) = known.filter(|known| !self.is_last && known.loss(state).is_any()) else {
            return Ok(());
        };
        let found = known.disagreements(arch, state);
        if found.is_empty() {
            return Ok(());
        }
        analysis.doubtful.entry(pad).or_default().extend(found);
        Err(Restart)
    }
}
