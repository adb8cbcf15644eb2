//! The targets of the calls and jumps of a file: where functions start.

use std::collections::HashSet;

use cfipack_code::{Code, Flow, Instructions};
use cfipack_format::Address;

/// The targets of direct calls and jumps.
#[derive(Default)]
pub struct Targets {
    /// Targets of calls.
    pub called: HashSet<Address>,
    /// Targets of jumps and branches.
    pub jumped: HashSet<Address>,
}

impl Targets {
    /// Adds the targets of a function's instructions.
    pub fn add(&mut self, code: &Code<'_>, instructions: &Instructions) {
        for instruction in instructions.as_slice() {
            match instruction.flow {
                Flow::Call(Some(target)) => self.called.insert(target),
                Flow::Jump(Some(target)) | Flow::Branch(Some(target), _) if can_start(code, target) => {
                    self.jumped.insert(target)
                }
                _ => continue,
            };
        }
    }

    /// Returns whether a call leads to an address: a direct call, or a call from another object if `is_exported` returns
    /// true and no jump leads there.
    pub fn has_call_to(&self, address: Address, is_exported: &dyn Fn(Address) -> bool) -> bool {
        self.called.contains(&address) || (is_exported(address) && !self.jumped.contains(&address))
    }
}

/// Returns whether a function can start at an address: it is the start of `code` or outside of it.
fn can_start(code: &Code<'_>, address: Address) -> bool {
    let offset = address.0.wrapping_sub(code.start.0);
    offset == 0 || offset >= code.bytes.len() as u64
}
