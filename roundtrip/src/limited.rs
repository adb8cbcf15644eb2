//! Keeps the first findings of a walk, and counts the rest. A finding may consist of many pieces.

use cfipack_format::widen::ToU64;

/// A piece of a finding, as a walk meets it.
pub(crate) trait Piece {
    /// Extends this finding by `next`, if `next` continues it. Returns whether it does.
    fn continue_with(&mut self, next: &Self) -> bool;
}

/// The first findings, and the number of further findings.
#[derive(Debug)]
pub(crate) struct Limited<T> {
    limit: usize,
    first: Vec<T>,
    /// The last finding that is only counted. The next piece may continue it.
    beyond: Option<T>,
    more: u64,
}

impl<T: Piece> Limited<T> {
    /// Keeps at most `limit` findings, and counts all of them.
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

    /// Appends the findings of another walk with the same limit, at higher addresses. No piece of it continues a
    /// finding of this walk.
    pub(crate) fn append(&mut self, other: Self) {
        let room = self.limit - self.first.len();
        self.more += other.more + other.first.len().saturating_sub(room).to_u64();
        self.first.extend(other.first.into_iter().take(room));
    }

    /// Returns the kept findings, and the number of further findings.
    pub(crate) fn finish(self) -> (Vec<T>, u64) {
        (self.first, self.more)
    }
}
