//! Recycles the memory of states: a state is large, and each function needs many of them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::state::State;

/// The most states that are kept from one function to the next.
const MAX_SPARE: usize = 1 << 12;

/// States that are no longer in use. The next function reuses their memory.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Arc<State>>>);

impl Spare {
    /// Takes all spare states.
    pub fn take(&self) -> Vec<Arc<State>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives taken states back, with the memory of their list. States beyond [`MAX_SPARE`] are dropped.
    pub fn give_back(&self, mut states: Vec<Arc<State>>) {
        std::mem::swap(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), &mut states);
        self.give(states);
    }

    /// Gives states back. States that are shared, or beyond [`MAX_SPARE`], are dropped.
    pub fn give(&self, states: impl IntoIterator<Item = Arc<State>>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_SPARE.saturating_sub(kept.len());
        let own = states.into_iter().filter(|state| Arc::strong_count(state) == 1);
        kept.extend(own.take(room));
    }
}
