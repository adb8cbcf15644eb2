//! A limited number of the differences that a walk finds, the first ones, each of them whole.

use cfipack_format::widen::ToU64;
/// A piece of a description, as a walk finds it.
pub(crate) trait Piece {
    /// Goes on to the end of the next piece, if that is only more of the same. Returns whether it is.
    fn continue_with(&mut self, next: &Self) -> bool;
}

/// The first of what is found, and how many more there are.
#[derive(Debug)]
pub(crate) struct Limited<T> {
    limit: usize,
    first: Vec<T>,
    /// Of those that are only counted, the last: to know what continues it.
    beyond: Option<T>,
    more: u64,
}

impl<T: Piece> Limited<T> {
    /// Stores `limit` at most, and counts all.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, first: Vec::new(), beyond: None, more: 0 }
    }

    /// Takes the next piece, in order of address.
    pub(crate) fn add(&mut self, piece: T) {
        let last = self.beyond.as_mut().or(self.first.last_mut());
        if last.is_some_and(|last| last.continue_with(&piece)) {
            return;
        }
        if self.first.len() < self.limit {
            self.first.push(piece);
        } else {
            self.beyond = Some(piece);
            self.more += 1;
        }
    }

    /// Takes what another walk found further on, with the same limit. None of it continues a piece of this one.
    pub(crate) fn append(&mut self, other: Self) {
        let room = self.limit - self.first.len();
        self.more += other.more + other.first.len().saturating_sub(room).to_u64();
        self.first.extend(other.first.into_iter().take(room));
    }

    /// The pieces that are stored, and how many more there are.
    pub(crate) fn finish(self) -> (Vec<T>, u64) {
        (self.first, self.more)
    }
}
