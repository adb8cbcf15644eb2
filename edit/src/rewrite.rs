//! A changed version of a file, as ranges of the old file and new bytes.

use std::borrow::Cow;
use std::ops::Range;

/// A changed version of a file: its pieces in order, without a copy of the old bytes that stay.
///
/// You build it by appending pieces, or by [patching](Rewrite::patch) bytes in their place. Each piece of new bytes has
/// a name, so the list of pieces explains every difference between the two files. To write the file, walk the
/// [pieces](Rewrite::pieces). [`to_vec`](Rewrite::to_vec) builds the file in memory.
#[derive(Clone, Debug, Default)]
pub struct Rewrite<'a> {
    pieces: Vec<Piece<'a>>,
    len: usize,
}

/// Consecutive bytes of a [`Rewrite`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Piece<'a> {
    /// Bytes of the old file.
    Old(Range<usize>),
    /// New bytes.
    New {
        /// The name of the bytes, such as `program header 11: PT_GNU_SFRAME`.
        what: Cow<'static, str>,
        /// The bytes.
        bytes: Cow<'a, [u8]>,
    },
    /// Zeros.
    Zeros {
        /// The name of the bytes, such as `padding`.
        what: Cow<'static, str>,
        /// The number of bytes.
        len: usize,
    },
}

impl Piece<'_> {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Old(range) => range.len(),
            Self::New { bytes, .. } => bytes.len(),
            Self::Zeros { len, .. } => *len,
        }
    }

    /// Returns whether the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the part of the piece from `start` to `end`, which count from the start of the piece.
    fn part(&self, start: usize, end: usize) -> Self {
        match self {
            Self::Old(range) => Self::Old(range.start + start..range.start + end),
            Self::New { what, bytes } => {
                Self::New { what: what.clone(), bytes: bytes[start..end].to_vec().into() }
            }
            Self::Zeros { what, .. } => Self::Zeros { what: what.clone(), len: end - start },
        }
    }
}

/// New bytes that replace the same number of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    /// The offset of the first byte in the new file.
    pub offset: usize,
    /// The name of the bytes.
    pub what: Cow<'static, str>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl<'a> Rewrite<'a> {
    /// Starts a file without bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Describes a file of `len` bytes without changes.
    pub fn unchanged(len: usize) -> Self {
        let mut rewrite = Self::new();
        rewrite.old(0..len);
        rewrite
    }

    /// Appends bytes of the old file.
    pub fn old(&mut self, range: Range<usize>) {
        self.len += range.len();
        match self.pieces.last_mut() {
            Some(Piece::Old(last)) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.pieces.push(Piece::Old(range)),
        }
    }

    /// Appends new bytes.
    pub fn bytes(&mut self, what: impl Into<Cow<'static, str>>, bytes: impl Into<Cow<'a, [u8]>>) {
        let bytes = bytes.into();
        self.len += bytes.len();
        if !bytes.is_empty() {
            self.pieces.push(Piece::New { what: what.into(), bytes });
        }
    }

    /// Appends zeros.
    pub fn zeros(&mut self, what: impl Into<Cow<'static, str>>, len: usize) {
        self.len += len;
        if len != 0 {
            self.pieces.push(Piece::Zeros { what: what.into(), len });
        }
    }

    /// Appends zeros up to a multiple of `align`, which is not 0.
    pub fn align(&mut self, align: usize) {
        self.zeros("padding", self.len.next_multiple_of(align) - self.len);
    }

    /// Appends the rewrite of a file that is part of this file, such as a member of an archive. The member starts at
    /// the offset `base` of this rewrite's old file.
    pub fn append(&mut self, member: Rewrite<'a>, base: usize) {
        for mut piece in member.pieces {
            if let Piece::Old(range) = &mut piece {
                *range = base + range.start..base + range.end;
            }
            self.push(piece);
        }
    }

    /// Replaces bytes at some offsets of the new file. The patches can be in any order.
    ///
    /// # Panics
    /// Panics if patches overlap, or lie beyond the end of the file. The caller chooses the offsets, so this is an
    /// error of the caller and not of a file.
    #[must_use]
    pub fn patch(self, mut patches: Vec<Patch>) -> Self {
        patches.retain(|patch| !patch.bytes.is_empty());
        patches.sort_by_key(|patch| patch.offset);
        let mut result = Self::new();
        let mut patches = patches.into_iter().peekable();
        let mut start = 0;
        for piece in self.pieces {
            let end = start + piece.len();
            while let Some(patch) = patches.next_if(|patch| patch.offset < end) {
                // An earlier patch may have covered the start of this piece.
                assert!(result.len <= patch.offset, "patches overlap at {:#x}", patch.offset);
                let from = result.len.max(start);
                result.push(piece.part(from - start, patch.offset - start));
                result.bytes(patch.what, patch.bytes);
            }
            if result.len < end {
                result.push(piece.part(result.len - start, end - start));
            }
            start = end;
        }
        assert!(patches.next().is_none() && result.len == start, "a patch lies beyond the end of the file");
        result
    }

    /// Combines two rewrites. `first` turns file A into file B, and `self` turns B into C. The result turns A into C.
    pub(crate) fn after<'b>(self, first: &Rewrite<'b>) -> Rewrite<'b> {
        let starts: Vec<usize> = first.pieces().map(|(start, _)| start).collect();
        let mut result = Rewrite::new();
        for piece in self.pieces {
            match piece {
                Piece::New { what, bytes } => result.bytes(what, bytes.into_owned()),
                Piece::Zeros { what, len } => result.zeros(what, len),
                Piece::Old(range) => {
                    let from = starts.partition_point(|&start| start <= range.start).saturating_sub(1);
                    let pieces = first.pieces[from..].iter().zip(&starts[from..]);
                    for (piece, &start) in pieces.take_while(|(_, start)| **start < range.end) {
                        let end = range.end.min(start + piece.len());
                        result.push(piece.part(range.start.max(start) - start, end - start));
                    }
                }
            }
        }
        result
    }

    fn push(&mut self, piece: Piece<'a>) {
        match piece {
            Piece::Old(range) => self.old(range),
            Piece::New { what, bytes } => self.bytes(what, bytes),
            Piece::Zeros { what, len } => self.zeros(what, len),
        }
    }

    /// Returns the number of bytes of the new file.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the new file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the pieces in the order of the new file, each with its offset in the new file. No piece is empty.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &Piece<'a>)> {
        self.pieces.iter().scan(0, |next, piece| {
            let offset = *next;
            *next += piece.len();
            Some((offset, piece))
        })
    }

    /// Returns whether the new file has the same bytes as the old file.
    pub fn is_unchanged(&self, old: &[u8]) -> bool {
        self.len == old.len()
            && self.pieces().all(|(offset, piece)| {
                let there = &old[offset..offset + piece.len()];
                match piece {
                    Piece::Old(range) => range.start == offset || &old[range.clone()] == there,
                    Piece::New { bytes, .. } => **bytes == *there,
                    Piece::Zeros { .. } => there.iter().all(|&byte| byte == 0),
                }
            })
    }

    /// Builds the new file.
    ///
    /// # Panics
    /// Panics if `old` is shorter than the file that the rewrite was made for.
    pub fn to_vec(&self, old: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        for piece in &self.pieces {
            match piece {
                Piece::Old(range) => bytes.extend_from_slice(&old[range.clone()]),
                Piece::New { bytes: new, .. } => bytes.extend_from_slice(new),
                Piece::Zeros { len, .. } => bytes.resize(bytes.len() + len, 0),
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(offset: usize, bytes: &[u8]) -> Patch {
        Patch { offset, what: "test".into(), bytes: bytes.to_vec() }
    }

    #[test]
    fn patches_may_cover_several_pieces() {
        let mut rewrite = Rewrite::new();
        rewrite.old(0..4);
        rewrite.bytes("x", &b"XY"[..]);
        rewrite.old(4..8);
        rewrite.align(16);
        let old = b"abcdefgh";
        assert_eq!(rewrite.to_vec(old), b"abcdXYefgh\0\0\0\0\0\0");
        let patched = rewrite.clone().patch(vec![patch(9, b"12"), patch(3, b"0000"), patch(0, b"-")]);
        assert_eq!(patched.to_vec(old), b"-bc0000fg12\0\0\0\0\0");
        assert_eq!(patched.len(), rewrite.len());
        let whole = rewrite.clone().patch(vec![patch(0, &[7; 16])]);
        assert_eq!(whole.to_vec(old), [7; 16]);
        assert!(!rewrite.is_unchanged(old));
    }

    #[test]
    fn a_file_with_its_own_bytes_is_unchanged() {
        let old = b"abc\0efgh";
        let rewrite = Rewrite::unchanged(8);
        assert_eq!(rewrite.pieces().count(), 1);
        assert!(rewrite.is_unchanged(old));
        assert!(rewrite.clone().patch(vec![patch(2, b"c\0e")]).is_unchanged(old));
        assert!(!rewrite.patch(vec![patch(2, b"c\0f")]).is_unchanged(old));
    }

    #[test]
    fn changes_one_after_the_other() {
        let old = b"abcdefgh";
        let mut first = Rewrite::unchanged(8);
        first.zeros("z", 2);
        let first = first.patch(vec![patch(2, b"CD")]);
        let between = first.to_vec(old);
        // The second rewrite has pieces in another order, pieces across borders of the first rewrite, and whole pieces.
        let mut second = Rewrite::new();
        second.old(6..10);
        second.bytes("x", &b"XY"[..]);
        second.old(1..4);
        second.old(3..3);
        second.zeros("z", 1);
        let expected = second.to_vec(&between);
        assert_eq!(expected, b"gh\0\0XYbCD\0");
        assert_eq!(second.after(&first).to_vec(old), expected);
        let back = Rewrite::unchanged(8).patch(vec![patch(2, b"cd")]).after(&first);
        assert!(back.is_unchanged(old));
    }

    #[test]
    #[should_panic(expected = "patches overlap at 0x3")]
    fn overlapping_patches_are_refused() {
        let _ = Rewrite::unchanged(8).patch(vec![patch(2, b"12"), patch(3, b"3")]);
    }

    #[test]
    fn members_keep_their_old_bytes() {
        let mut member = Rewrite::new();
        member.old(1..3);
        member.zeros("z", 1);
        let mut archive = Rewrite::new();
        archive.old(0..2);
        archive.append(member, 1);
        assert_eq!(archive.to_vec(b"abcdefgh"), b"abcd\0");
    }
}
