//! The surroundings of a function that is compared with its code, and the result.

use cfipack_code::State;
use cfipack_format::Address;

use super::Found;

/// The result for a function.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Disagreements.
    pub findings: Vec<Found>,
    /// The calls with a wrong row.
    pub at_calls: Vec<Found>,
    /// Whether the function has rows for the ends of its frame, if it has a frame.
    pub ends_frames: Option<bool>,
    /// The reason why not every instruction was compared.
    pub doubt: Option<&'static str>,
    /// Jumps to other functions with the frame in place.
    pub exits: Vec<Leaving>,
    /// True if a way into this function from another function can decide more instructions.
    pub waits: bool,
    /// True if the function is followed from its start if a call leads there.
    pub needs_call: bool,
    /// True if the function was followed from its start, as if a call leads there.
    pub is_entered: bool,
    /// True if the code after some calls was not followed, because the calls may not return.
    pub has_last_calls: bool,
    /// The number of instructions with the right row.
    pub right: u64,
}

impl Outcome {
    pub fn undecided(doubt: &'static str) -> Self {
        Self { doubt: Some(doubt), ..Self::default() }
    }

    /// Returns whether nothing was found, and ways from other functions change nothing about this.
    pub fn is_clean_alone(&self) -> bool {
        self.findings.is_empty() && !self.waits && !self.needs_call && !self.has_last_calls
    }
}

/// A jump to another function with the frame in place.
#[derive(Debug)]
pub struct Leaving {
    /// The target.
    pub target: Address,
    /// The state after the jump.
    pub state: State,
    /// True if the target comes from a jump table. If we read past the end of a jump table, we get targets of another
    /// function's table.
    pub is_from_table: bool,
    /// True if the jump leads to the default of a switch. If the default is unreachable, GCC lets
    /// the jump lead behind the function's cold code, where another fragment can start.
    pub is_default: bool,
}

/// What a pass over functions knows about their surroundings.
#[derive(Clone, Copy, Default)]
pub struct Pass {
    /// True if calls lead to the functions.
    pub is_called: bool,
    /// True if the functions get all ways into them: no further way will be found.
    pub is_closed: bool,
}

/// A way into a function from another function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// The number of the other function.
    pub from: usize,
    /// The place of the entry, in bytes from the function's start.
    pub offset: u32,
    /// The state at the entry.
    pub state: State,
    /// True if the target comes from a jump table, as in [`Leaving`].
    pub is_from_table: bool,
    /// True if the jump, as in [`Leaving`], leads to the function's start.
    pub is_default: bool,
    /// True if the way leads to the start of code that no call enters, by its symbol.
    pub is_to_part: bool,
}
