//! Fits a palette and pages to each other.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use cfipack_format::unwind_info::PageKind;
use cfipack_format::widen::ToUsize;

use super::common_palette::first_by;
use super::dedup_entries::{DedupedEntries, Key};
use super::min_pages::{Partition, partition};

/// How many compressed pages must use an encoding before it becomes common; all numbers in this range are tried. With
/// 2 pages a common encoding saves a word. With 1 it costs nothing and makes room in a page, and with 3 it leaves the
/// other pages more encodings.
const LEAST_USERS: RangeInclusive<u32> = 1..=3;

/// Makes encodings common that several pages use, and cuts new pages, for as long as the table gets smaller.
pub(super) fn refined(table: &DedupedEntries, mut best: Partition) -> Partition {
    let mut size = usize::MAX;
    while best.size() < size {
        size = best.size();
        let mut users = Users::new(table);
        for page in best.pages.iter().filter(|page| page.kind == PageKind::Compressed) {
            users.add(&table.keys[page.first.to_usize()..][..page.count.into()]);
        }
        for least in LEAST_USERS {
            best.take_smaller(partition(table, users.ranked(least)));
        }
    }
    best
}

/// Counts how many pages use each encoding.
pub(super) struct Users<'a> {
    table: &'a DedupedEntries,
    /// The counts by number of the encoding.
    counts: Vec<u32>,
    /// For each encoding, by number: the last page that used it.
    last: Vec<u32>,
    page: u32,
}

impl<'a> Users<'a> {
    pub(super) fn new(table: &'a DedupedEntries) -> Self {
        let none = vec![0; table.encodings.len()];
        Self { table, counts: none.clone(), last: none, page: 0 }
    }

    /// Counts a page with these keys.
    pub(super) fn add(&mut self, keys: &[Key]) {
        self.page += 1;
        for key in keys {
            let number = key.encoding.to_usize();
            if self.last[number] != self.page {
                self.last[number] = self.page;
                self.counts[number] += 1;
            }
        }
    }

    /// Returns the encodings that at least `least` pages use, the most used first, up to the limit of a common
    /// palette.
    pub(super) fn ranked(&self, least: u32) -> Vec<u32> {
        let Self { table, counts, .. } = self;
        let used = (0..counts.len() as u32).filter(|&number| counts[number.to_usize()] >= least).collect();
        first_by(used, |n| [!counts[n], !table.counts[n], table.encodings[n].0])
    }
}
