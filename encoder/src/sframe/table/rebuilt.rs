//! Builds entries from other entries, without the blocks that no entry refers to.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::Arch;
use cfipack_format::sframe::FdeInfo;
use cfipack_format::widen::ToUsize;

use crate::Reason;
use crate::sframe::options::{Layout, Options};
use crate::sframe::rows::fres::Fres;
use crate::sframe::table::block::Blocks;
use crate::sframe::table::entries::{Entries, Entry};
use crate::sframe::table::read_back::{Head, Row, read_back};

/// Stands for the number of a block that was not copied yet.
const NOT_YET: u32 = u32::MAX;

/// New entries, with rows of old blocks.
pub(crate) struct Rebuilt<'o, 'a> {
    old: &'o Blocks<'a>,
    /// The new numbers of old blocks.
    numbers: Vec<u32>,
    new: Entries<'a>,
    fres: Fres,
    arch: Arch,
    layout: Layout,
}

impl<'o, 'a> Rebuilt<'o, 'a> {
    pub(crate) fn new(old: &'o Blocks<'a>, arch: Arch, options: Options) -> Self {
        let fres = Fres::new(arch.endian(), false);
        let blocks = Blocks::new(options, arch.endian(), old.seed());
        let (numbers, new) = (vec![NOT_YET; old.len()], Entries::new(blocks));
        Self { old, numbers, new, fres, arch, layout: options.layout }
    }

    /// Returns the entries. The other lists of [`Entries`] are empty.
    pub(crate) fn finish(self) -> Entries<'a> {
        self.new
    }

    /// The entries so far.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.new.list
    }

    /// Adds an entry as it is.
    pub(crate) fn keep(&mut self, entry: Entry) -> Result<(), Reason> {
        let number = &mut self.numbers[entry.block.to_usize()];
        if *number == NOT_YET {
            *number = self.new.blocks.copy(self.old, entry.block)?;
        }
        let (head, _) = read_back(self.old, entry.block, self.arch.endian());
        self.new.push(entry.start, entry.size, *number, head.num_fres);
        Ok(())
    }

    /// Adds the rows of an entry for some of its PCs. `pcs` are ranges of addresses, in order.
    pub(crate) fn cut(&mut self, entry: Entry, pcs: &[Range<u64>]) -> Result<(), Reason> {
        let mark = self.new.mark();
        let (head, rows) = read_back(self.old, entry.block, self.arch.endian());
        let rows: Vec<_> = rows.collect();
        for pcs in pcs {
            let clipped = pcs.start.max(entry.start)..pcs.end.min(entry.end());
            if clipped.is_empty() {
                continue;
            }
            let [from, to] = [clipped.start, clipped.end].map(|pc| (pc - entry.start) as u32);
            let added = if head.info.contains(FdeInfo::PC_MASK) {
                self.cut_stubs(entry, head, &rows, from..to)
            } else {
                self.add(entry, head, &rows, from..to, 0)
            };
            added.inspect_err(|_| self.new.back_to(mark, &mut self.fres))?;
        }
        Ok(())
    }

    /// Adds a part of an entry with rows that repeat. If the part starts inside a stub, the rest of this stub
    /// gets an entry of its own.
    fn cut_stubs(&mut self, entry: Entry, head: Head, rows: &[Row], pcs: Range<u32>) -> Result<(), Reason> {
        let size = u32::from(head.rep_size).max(1);
        let whole = pcs.start.checked_next_multiple_of(size).unwrap_or(u32::MAX).min(pcs.end);
        let stub = pcs.start - pcs.start % size;
        let plain = Head { info: head.info - FdeInfo::PC_MASK, rep_size: 0, ..head };
        self.add(entry, plain, rows, pcs.start..whole, stub)?;
        if whole == pcs.end {
            return Ok(());
        }
        let start = entry.start.wrapping_add(whole.into());
        self.keep(Entry { start, size: pcs.end - whole, ..entry })
    }

    /// Adds the rows for some PCs. `pcs` count from the entry's start, and rows count from `base`.
    fn add(
        &mut self,
        entry: Entry,
        head: Head,
        rows: &[Row],
        pcs: Range<u32>,
        base: u32,
    ) -> Result<(), Reason> {
        let first = rows.partition_point(|row| base + row.0 <= pcs.start).saturating_sub(1);
        let rows = rows[first..].iter().take_while(|row| base + row.0 < pcs.end);
        let size = pcs.end - pcs.start;
        self.fres.begin(self.layout.fre_type(size));
        for (start, fre) in rows {
            self.fres.push((base + start).saturating_sub(pcs.start), fre);
        }
        // In layout `Gnu`, an FDE without rows must stay: it hides the rows of functions around it.
        if self.fres.count() == 0 && self.layout.is_smallest() {
            return Ok(());
        }
        if self.layout.narrows_starts() {
            self.fres.narrow();
        }
        let start = entry.start.wrapping_add(pcs.start.into());
        self.new.add(start, size, &mut self.fres, head.info, head.fde_type, head.rep_size)
    }
}
