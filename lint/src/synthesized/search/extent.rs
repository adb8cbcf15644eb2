//! Follows code whose end is not known, piece after piece, to the end of its function.

use cfipack_code::{Code, Flow};
use cfipack_format::Address;

use super::super::paths::{LONGEST, Paths, follow, lost_calls, may_end, resumed};
use super::{ALIGNMENT, MAX_FUNCTION, Search};

/// The number of bytes that are decoded first when a function's end is not known.
const WINDOW: u64 = 1 << 9;
/// If the code goes on after these bytes, or jumps to code within this many times the bytes, it is decoded so much further.
const GROWTH: u64 = 8;

impl Search<'_, '_> {
    /// Follows the code from an address to `limit` at most. Returns `None` if no code is there.
    pub(super) fn paths(&mut self, start: Address, limit: Address) -> Option<Paths> {
        let most = (limit.0 - start.0).min(MAX_FUNCTION);
        let (mut window, mut decoded) = (most.min(WINDOW), 0);
        loop {
            decoded += window;
            let (bytes, relocated) = self.memory.code(start, window)?;
            let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
            self.decoded.decode(&code);
            let mut noreturn = self.returns.ends(&self.decoded);
            let mut analysis = follow(code, &self.decoded, self.memory, &noreturn);
            // The end of a function is not known. So code after a call belongs to the function only if it leads back
            // into the function, or to a return, or if no other function can start there.
            let mut lost = lost_calls(&analysis, window < most);
            // A fragment may follow another function's fragment, and both need not be aligned.
            let is_fragment = !start.0.is_multiple_of(ALIGNMENT);
            lost.retain(|call| {
                is_fragment && !self.surely_returns(*call) || may_end(&code, &self.decoded, *call)
            });
            while !lost.is_empty() {
                let mut all = [&noreturn[..], &lost].concat();
                all.sort_unstable();
                all.dedup();
                analysis = follow(code, &self.decoded, self.memory, &all);
                let last = resumed(&analysis).last().copied().unwrap_or(0);
                let known = lost.len();
                lost.retain(|call| *call >= last || may_end(&code, &self.decoded, *call));
                if lost.len() == known {
                    noreturn = all;
                    break;
                }
                if lost.is_empty() {
                    analysis = follow(code, &self.decoded, self.memory, &noreturn);
                }
            }
            let mut paths = Paths { noreturn, decoded, ..Paths::default() };
            let nearest = paths.read(&analysis);
            let is_cut = paths.end + LONGEST > window || nearest < GROWTH * window;
            if !is_cut || window == most {
                return Some(paths);
            }
            window = most.min(GROWTH * window);
        }
    }

    /// Returns whether a call of the decoded code surely returns.
    fn surely_returns(&self, call: u32) -> bool {
        let index = self.decoded.index_of(call);
        let flow = index.and_then(|index| self.decoded.get(index)).map(|call| call.flow);
        matches!(flow, Some(Flow::Call(Some(target))) if self.returns.surely(target))
    }
}
