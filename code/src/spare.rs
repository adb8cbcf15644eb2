//! Memory of states that are done, for those of the functions that follow.

#![allow(clippy::vec_box, reason = "they go into blocks and back without being copied")]

use std::sync::{Mutex, PoisonError};

use crate::state::State;

/// The most states that are kept from one function to the next.
const MAX_SPARE: usize = 1 << 12;

/// States that nothing refers to.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Box<State>>>);

impl Spare {
    /// All of them.
    pub fn take(&self) -> Vec<Box<State>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives states back.
    pub fn give(&self, states: impl IntoIterator<Item = Box<State>>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_SPARE.saturating_sub(kept.len());
        kept.extend(states.into_iter().take(room));
    }
}
