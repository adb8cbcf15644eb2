//! Code that has rows and no call frame information: the stubs that a linker writes.

use cfipack_format::sframe::{FdeInfo, FdeType, FreType};
use cfipack_format::{Key, Row};

use crate::sframe::rows::fre::Fre;
use crate::sframe::rows::fres::MAX_ROWS;
use crate::sframe::{Builder, Layout};
use crate::{Reason, Unsupported};

/// A part of a section of stubs: one piece of code, such as the header of a PLT, or equal pieces one after the
/// other, such as its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StubPart<'r> {
    /// Bytes of one piece.
    size: u32,
    /// How many there are; none of code that does not repeat.
    count: Option<u32>,
    /// The rows of one piece.
    rows: &'r [Row],
}

impl<'r> StubPart<'r> {
    /// Code of `size` bytes that does not repeat. The starts of its rows count from its own start; the first is 0,
    /// each lies after the one before it and in the code.
    pub const fn once(size: u32, rows: &'r [Row]) -> Self {
        Self { size, count: None, rows }
    }

    /// Equal pieces of code, each of `size` bytes and with these rows.
    pub const fn repeated(size: u32, count: u32, rows: &'r [Row]) -> Self {
        Self { size, count: Some(count), rows }
    }

    /// Bytes of all pieces together.
    pub const fn len(&self) -> u64 {
        // Both factors are below 2^32.
        self.size as u64 * self.count() as u64
    }

    /// Whether it has no code.
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
            0 => Err(Reason::CfaMissing),
            len if len > MAX_ROWS as usize => Err(Reason::RowCount),
            _ => Ok(()),
        }
    }
}

impl Builder<'_> {
    /// Adds a section of stubs, which has rows and no CFI, by its parts in order. [`write`](super::Section::write) asks
    /// for the address of `key`, where the first part starts; `is_placed` says that the key is that address. The
    /// others of the builder's functions have addresses, or have none, alike.
    ///
    /// Pieces that repeat become a PC-mask FDE, which has the rows of one, and in layout `Small` only where that
    /// has several: for a single row any FDE does. Readers find the row by the PC's distance from the FDE's start,
    /// so stubs need no alignment.
    ///
    /// # Errors
    /// Rows that the format cannot represent, that are none, or whose starts are not in order
    /// ([`Reason::RowStart`]), and what [`push`](Self::push) refuses for lack of room. The section then has no row
    /// for any of the stubs, and takes note of them as of a function that is refused.
    pub fn push_stubs(
        &mut self,
        key: Key,
        is_placed: bool,
        parts: &[StubPart<'_>],
    ) -> Result<(), Unsupported> {
        let unsupported = |reason| Unsupported::function(key, reason);
        self.can_take(is_placed).map_err(unsupported)?;
        self.entries.have_addresses = Some(is_placed);
        let before = self.entries.mark();
        let size = parts.iter().fold(0, |size: u64, part| size.saturating_add(part.len()));
        let parts = parts.iter().filter(|part| !part.is_empty());
        let checked = parts.clone().try_for_each(StubPart::check);
        let size32 = u32::try_from(size).map_err(|_| Reason::FunctionSize);
        let added = checked.and(size32).and_then(|size| {
            let mut at = 0;
            for part in parts {
                self.add_part(key, at, size, part)?;
                // No overflow: the sum of all is `size`.
                at += part.len() as u32;
            }
            Ok(())
        });
        added.map_err(|reason| {
            self.entries.back_to(before, &mut self.fres);
            self.note_omitted(key, size);
            unsupported(reason)
        })
    }

    /// Adds the entries of a part that starts `at` bytes from the start of stubs of `all` bytes.
    fn add_part(&mut self, key: Key, at: u32, all: u32, part: &StubPart<'_>) -> Result<(), Reason> {
        let len = part.len() as u32;
        let is_gnu = self.options.layout == Layout::Gnu;
        let repeats = part.count.is_some() && (is_gnu || part.rows.len() > 1);
        let (Ok(rep_size), true) = (u8::try_from(part.size), repeats) else {
            let pieces = if part.rows.len() > 1 { part.count() } else { 1 };
            let size = len / pieces;
            return (0..pieces).try_for_each(|n| self.add_piece(key, at + n * size, size, all, part.rows, 0));
        };
        self.add_piece(key, at, len, all, part.rows, rep_size)
    }

    fn add_piece(
        &mut self,
        key: Key,
        at: u32,
        size: u32,
        all: u32,
        rows: &[Row],
        rep_size: u8,
    ) -> Result<(), Reason> {
        let added = self.add_rows(key, at, size, all, rows, rep_size, FdeType::Default);
        match added {
            Err(_) if self.options.flex => {
                self.add_rows(key, at, size, all, rows, rep_size, FdeType::Flex).or(added)
            }
            _ => added,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an FDE has as many fields")]
    fn add_rows(
        &mut self,
        key: Key,
        at: u32,
        size: u32,
        all: u32,
        rows: &[Row],
        rep_size: u8,
        fde_type: FdeType,
    ) -> Result<(), Reason> {
        let arch = self.abi.arch();
        // ld chooses the FRE type by the size of the whole section.
        let last = rows.last().map_or(0, |row| row.start.0);
        self.fres.begin(FreType::for_start(if self.options.layout == Layout::Gnu { all } else { last }));
        for row in rows {
            let fre = Fre::new(arch, row, fde_type)?;
            if self.options.layout == Layout::Gnu || !self.fres.repeats(&fre) {
                self.fres.push(row.start.0, &fre);
            }
        }
        let info = if rep_size == 0 { FdeInfo::empty() } else { FdeInfo::PC_MASK };
        if at != 0 {
            self.entries.go_on();
        }
        let start = key.0.wrapping_add(at.into());
        self.entries.add(start, size, &mut self.fres, info, fde_type, rep_size)
    }
}

#[cfg(test)]
mod tests;
