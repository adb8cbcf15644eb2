//! Replaces parts of a file by bytes of any length, and computes the new offsets of all other parts.

use std::borrow::Cow;
use std::ops::Range;

use cfipack_container::Error;
use cfipack_format::widen::ToU64;

use crate::rewrite::Rewrite;

/// The replaced parts of a file.
#[derive(Debug, Default)]
pub(super) struct Splices {
    list: Vec<Splice>,
}

/// Bytes that replace a range of the file. An empty range inserts the bytes before its start.
#[derive(Debug)]
struct Splice {
    old: Range<usize>,
    what: Cow<'static, str>,
    bytes: Vec<u8>,
}

/// An insertion with bytes that are filled in later.
#[derive(Debug)]
pub(super) struct Reserved(usize);

impl Splices {
    /// Replaces a range of the file.
    pub(super) fn replace(
        &mut self,
        old: Range<usize>,
        what: impl Into<Cow<'static, str>>,
        bytes: impl Into<Vec<u8>>,
    ) {
        self.list.push(Splice { old, what: what.into(), bytes: bytes.into() });
    }

    /// Inserts `len` bytes. [`fill`](Self::fill) writes them once all offsets are known.
    pub(super) fn reserve(&mut self, at: usize, what: &'static str, len: usize) -> Reserved {
        self.replace(at..at, what, vec![0; len]);
        Reserved(self.list.len() - 1)
    }

    /// Writes the bytes of a reserved insertion.
    pub(super) fn fill(&mut self, Reserved(index): Reserved, bytes: &[u8]) {
        self.list[index].bytes.copy_from_slice(bytes);
    }

    /// Returns the new offset of a part that started at `offset`. Insertions at `offset` come before the part.
    pub(super) fn moved(&self, offset: u64) -> u64 {
        let before = self.list.iter().filter(|splice| splice.old.end.to_u64() <= offset);
        before.fold(offset, |moved, Splice { old, bytes, .. }| {
            moved.wrapping_add(bytes.len().to_u64()).wrapping_sub(old.len().to_u64())
        })
    }

    /// Returns the changed file. Parts that overlap are an error in the layout of the old file.
    pub(super) fn rewrite<'a>(mut self, len: usize) -> Result<Rewrite<'a>, Error> {
        // Insertions at the same place keep their order.
        self.list.sort_by_key(|splice| (splice.old.start, splice.old.end));
        let (mut rewrite, mut done) = (Rewrite::new(), 0);
        for Splice { old, what, bytes } in self.list {
            if old.start < done || old.end > len {
                let (offset, value) = (old.start.to_u64(), old.len().to_u64());
                return Err(Error::Table { what: "layout: parts of the file overlap", offset, value });
            }
            rewrite.old(done..old.start);
            rewrite.bytes(what, bytes);
            done = old.end;
        }
        rewrite.old(done..len);
        Ok(rewrite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_move_what_comes_after() {
        let mut splices = Splices::default();
        splices.replace(6..8, "shorter", *b"x");
        splices.replace(2..2, "inserted", *b"123");
        splices.replace(2..2, "after it", *b"4");
        assert_eq!([1, 2, 5, 8].map(|offset| splices.moved(offset)), [1, 6, 9, 11]);
        assert_eq!(splices.rewrite(10).unwrap().to_vec(b"abcdefghij"), b"ab1234cdefxij");
    }

    #[test]
    fn overlapping_parts_are_refused() {
        let mut splices = Splices::default();
        splices.replace(2..5, "", []);
        splices.replace(4..4, "", *b"x");
        assert!(matches!(splices.rewrite(8), Err(Error::Table { offset: 4, .. })));
        let mut splices = Splices::default();
        splices.replace(7..9, "", []);
        assert!(splices.rewrite(8).is_err());
    }
}
