//! Rewrites the starts of a function's rows in fewer bytes, and drops rows that start after its end.

use cfipack_format::Endian;
use cfipack_format::sframe::{FreInfo, FreType};

use crate::sframe::rows::fre::{Fre, fre_len};
use crate::sframe::rows::fres::{Fres, ROOM};

impl Fres {
    /// Rewrites the starts with the narrowest type that has room for them all.
    #[inline(always)]
    pub(crate) fn narrow(&mut self) {
        let narrowest = FreType::for_start(self.last_start);
        if narrowest != self.fre_type {
            match (self.fre_type, narrowest) {
                (FreType::Addr2, _) => self.narrow_from::<2, 1>(narrowest),
                (_, FreType::Addr1) => self.narrow_from::<4, 1>(narrowest),
                _ => self.narrow_from::<4, 2>(narrowest),
            };
        }
    }

    /// Writes the rows again, after the present rows. Starts then have `WIDTH` bytes instead of `WIDE`.
    #[inline(never)]
    fn narrow_from<const WIDE: usize, const WIDTH: usize>(&mut self, narrowest: FreType) -> Option<()> {
        // Rows are copied in pieces of fixed size, so bytes after the last row are read too.
        let first = self.end + ROOM;
        self.grow_to(first + (self.end - self.first) + ROOM);
        let is_little = self.endian == Endian::Little;
        let (before, after) = self.bytes.split_at_mut(first);
        let (mut rows, mut to) = (&before[self.first..], after);
        let mut len_so_far = 0;
        // Most FREs of a function have the same info byte. Keeping its length saves waiting for the table.
        let (mut info, mut len) = (0, 0);
        for _ in 0..self.count {
            let row: &[u8; ROOM] = rows.first_chunk()?;
            let room: &mut [u8; ROOM] = to.first_chunk_mut()?;
            if row[WIDE] != info || len == 0 {
                info = row[WIDE];
                len = usize::from(FRE_LENS[usize::from(info)]);
            }
            let start = if is_little { &row[..WIDTH] } else { &row[WIDE - WIDTH..WIDE] };
            room[..WIDTH].copy_from_slice(start);
            if len <= 8 {
                room[WIDTH..][..8].copy_from_slice(&row[WIDE..][..8]);
            } else {
                room[WIDTH..][..Fre::MAX_SIZE].copy_from_slice(&row[WIDE..][..Fre::MAX_SIZE]);
            }
            rows = &rows[WIDE + len..];
            to = &mut to[WIDTH + len..];
            len_so_far += WIDTH + len;
        }
        (self.first, self.end, self.fre_type) = (first, first + len_so_far, narrowest);
        Some(())
    }

    /// Drops rows that start at or after `size`, which is not 0. The rows must be little-endian.
    pub(crate) fn trim(&mut self, size: u32) {
        let (width, mut at, mut count) = (self.fre_type.width(), self.first, 0);
        let unused = 32 - 8 * width as u32;
        while at < self.end {
            let Some(start) = self.bytes[at..].first_chunk() else { break };
            let start = u32::from_le_bytes(*start) << unused >> unused;
            if start >= size {
                break;
            }
            self.last_start = start;
            at += width + usize::from(FRE_LENS[usize::from(self.bytes[at + width])]);
            count += 1;
        }
        (self.end, self.count) = (at, count);
    }
}

/// [`fre_len`] by the info byte.
static FRE_LENS: [u8; 256] = {
    let mut lens = [0; 256];
    let mut info = 0;
    while info < lens.len() {
        lens[info] = fre_len(FreInfo(info as u8)) as u8;
        info += 1;
    }
    lens
};
