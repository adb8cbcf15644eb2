//! The states that functions bring into each other.

use std::rc::Rc;

use crate::state::State;

/// A place where other functions enter a function, and the state in which they enter it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Way {
    /// The index of the function that is entered.
    pub function: usize,
    /// The offset of the entered place, in bytes from the function's start.
    pub offset: u32,
    pub state: Rc<State>,
}

/// Sorts ways by place, and joins the states of ways that lead to the same place.
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

/// Returns the ways into a function. The list must be [sorted](sort).
pub(super) fn into_function(ways: &[Way], function: usize) -> &[Way] {
    let start = ways.partition_point(|way| way.function < function);
    let count = ways[start..].partition_point(|way| way.function == function);
    &ways[start..start + count]
}

/// Keeps in `known` only the facts that hold in both states.
pub(super) fn join(known: &mut Rc<State>, other: &State) {
    let loss = known.loss(other);
    if loss.is_any() {
        Rc::make_mut(known).lose(loss, other);
    }
}
