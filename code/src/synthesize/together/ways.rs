//! Ways into functions from others, with what is known there.

use std::rc::Rc;

use crate::state::State;

/// A way into a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Way {
    /// The number of the function.
    pub function: usize,
    /// Bytes from its start.
    pub offset: u32,
    pub state: Rc<State>,
}

/// Sorts ways by place, and joins those to one place.
pub(super) fn sort(ways: &mut Vec<Way>) {
    ways.sort_by_key(|way| (way.function, way.offset));
    ways.dedup_by(|way, first| {
        let is_same = (way.function, way.offset) == (first.function, first.offset);
        if is_same {
            join(&mut first.state, &way.state);
        }
        is_same
    });
}

/// The ways into one function, of all that are [sorted](sort).
pub(super) fn of(ways: &[Way], function: usize) -> &[Way] {
    let start = ways.partition_point(|way| way.function < function);
    let count = ways[start..].partition_point(|way| way.function == function);
    &ways[start..start + count]
}

/// Keeps what is known in another state too.
pub(super) fn join(known: &mut Rc<State>, other: &State) {
    let loss = known.loss(other);
    if loss.is_any() {
        Rc::make_mut(known).lose(loss, other);
    }
}
