//! Adds code that has rows and no CFI: the stubs that a linker writes.

use cfipack_format::sframe::FdeInfo;
use cfipack_format::widen::ToUsize;
use cfipack_format::{Key, Row};

use crate::sframe::builder::Builder;
use crate::sframe::options::Options;
use crate::sframe::rows::fres::MAX_ROWS;
use crate::sframe::table::encoded::{TableFunction, TableRows};
use crate::{Reason, Unsupported};

/// A part of a section of stubs. It is either a piece of code that does not repeat, such as the header of a
/// PLT, or a sequence of equal pieces, such as the entries of a PLT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StubPart<'r> {
    /// Bytes of a piece.
    size: u32,
    /// How often the piece repeats, or `None` for code that does not repeat.
    count: Option<u32>,
    /// The rows of a piece.
    rows: &'r [Row],
    /// True if the code has no rows.
    is_gap: bool,
}

impl<'r> StubPart<'r> {
    /// Describes `size` bytes of code that does not repeat. Row starts count from the start of this code. The
    /// first row starts at 0, and each row starts after the row before it and inside the code.
    pub const fn once(size: u32, rows: &'r [Row]) -> Self {
        Self { size, count: None, rows, is_gap: false }
    }

    /// Describes `count` equal pieces of code, each of `size` bytes and with these rows. Row starts count from
    /// the start of a piece.
    pub const fn repeated(size: u32, count: u32, rows: &'r [Row]) -> Self {
        Self { size, count: Some(count), rows, is_gap: false }
    }

    /// Describes `size` bytes of code without rows, because no row would be true.
    pub const fn gap(size: u32) -> Self {
        Self { size, count: None, rows: &[], is_gap: true }
    }

    /// Bytes of all pieces together.
    pub const fn len(&self) -> u64 {
        // Both factors are below 2^32.
        self.size as u64 * self.count() as u64
    }

    /// Returns whether the part has no code.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    const fn count(&self) -> u32 {
        match self.count {
            Some(count) => count,
            None => 1,
        }
    }

    fn check(&self) -> Result<(), Reason> {
        let starts = self.rows.iter().map(|row| row.start.0);
        let mut after = 0;
        for (number, start) in starts.enumerate() {
            let is_in_order = if number == 0 { start == 0 } else { start >= after };
            if !is_in_order || start >= self.size {
                return Err(Reason::RowStart(start));
            }
            after = start + 1;
        }
        match self.rows.len() {
            0 if self.is_gap => Ok(()),
            0 => Err(Reason::CfaMissing),
            len if len > MAX_ROWS.to_usize() => Err(Reason::RowCount),
            _ => Ok(()),
        }
    }
}

impl Builder<'_> {
    /// Adds a section of stubs, given as its parts in order.
    ///
    /// [`write`](super::Section::write) asks for the address of `key`, which is the start of the first part.
    /// Set `is_placed` if `key` is this address already. Either all functions of a builder have addresses, or
    /// none has.
    ///
    /// In layout `Gnu`, pieces that repeat become a PC-mask FDE, which has the rows of a single piece. Layout
    /// `Small` does so only if a piece has several rows, because a single row needs no mask. Readers find the
    /// row by the PC's distance from the start of the FDE, so stubs need no alignment.
    ///
    /// # Errors
    /// A part has no rows, its rows cannot be represented, or their starts are not in order
    /// ([`Reason::RowStart`]). The section may also lack room, as for [`push`](Self::push). The section then
    /// has no row for any of the stubs, and records them as a refused function.
    pub fn push_stubs(
        &mut self,
        key: Key,
        is_placed: bool,
        parts: &[StubPart<'_>],
    ) -> Result<(), Unsupported> {
        let before = self.draft.mark();
        let size = parts.iter().fold(0, |size: u64, part| size.saturating_add(part.len()));
        let stubs = TableFunction { has_address: is_placed, ..TableFunction::new(key, 0) };
        let parts = parts.iter().filter(|part| !part.is_empty());
        let checked = parts.clone().try_for_each(StubPart::check);
        let all = checked.and_then(|()| u32::try_from(size).map_err(|_| Reason::FunctionSize));
        let added = all.map_err(|reason| Unsupported::function(key, reason)).and_then(|all| {
            let mut at = 0;
            for part in parts {
                self.add_part(stubs, at, all, part)?;
                // This does not overflow: the sum of all lengths is `all`, a `u32`.
                at += part.len() as u32;
            }
            Ok(())
        });
        if let Err(Unsupported { reason, .. }) = added
            && reason != Reason::KeysMixed
        {
            self.draft.back_to(before);
            self.note_omitted(key, size);
        }
        added
    }

    /// Adds the entries of a part. The part starts `at` bytes after the start of the stubs, which have `all`
    /// bytes together.
    fn add_part(
        &mut self,
        stubs: TableFunction,
        at: u32,
        all: u32,
        part: &StubPart<'_>,
    ) -> Result<(), Unsupported> {
        if part.is_gap {
            return Ok(());
        }
        let Options { layout, .. } = self.draft.options;
        let repeats = part.count.is_some() && (!layout.is_smallest() || part.rows.len() > 1);
        // The size after which rows repeat must fit a byte. With a single row, all pieces together need only an
        // entry.
        let (pieces, rep_size) = match u8::try_from(part.size) {
            Ok(size) if repeats => (1, size),
            _ if part.rows.len() > 1 => (part.count(), 0),
            _ => (1, 0),
        };
        let mut info = FdeInfo::empty().with_fre_type(layout.fre_type(all));
        info.set(FdeInfo::PC_MASK, rep_size != 0);
        let size = part.len() as u32 / pieces;
        (0..pieces).try_for_each(|piece| {
            let offset = u64::from(at + piece * size);
            let function = TableFunction { size, ..stubs }.with_offset(offset).with_info(info, rep_size);
            self.push_table(&function, TableRows::Rows(part.rows.iter().copied())).map(|_| ())
        })
    }
}

#[cfg(test)]
mod tests;
