//! Compares each stack by table, by CFI and by framehop, and counts the stacks that a table ends by name.

use std::collections::BTreeMap;
use std::fmt;

use cfipack_decoder::walk::StackFrame;
use framehop::x86_64::CacheX86_64;
use gimli::UnwindContext;

use super::cfi::walk_by_cfi;
use super::hop::{Unwinder, walk_by_framehop};
use super::recording::Sample;
use super::table::walk_by_table;
use super::walk::{End, Space};

/// How many differences are kept as text.
const SHOWN: usize = 20;

/// The sum of all comparisons.
#[derive(Default)]
pub struct Comparison {
    /// Samples.
    pub samples: usize,
    /// Frames on which table and CFI agree.
    pub frames: usize,
    /// Stacks whose frames are all equal, with the same reason for the end.
    pub equal: usize,
    /// Stacks that the table ends earlier because it omits a function, by that function.
    pub omitted: BTreeMap<Place, usize>,
    /// Stacks that the table ends earlier because a caller's row needs a register that no table restores, by function.
    pub unrestored: BTreeMap<Place, usize>,
    /// Stacks that differ in any other way.
    pub different: usize,
    /// Descriptions of the first stacks that differ.
    pub differences: Vec<String>,
    /// Why the walks by CFI end.
    pub ends: BTreeMap<End, usize>,
    /// Stacks whose PCs framehop finds too, up to the end of the walk by CFI.
    pub by_framehop: usize,
}

/// A function of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The path of the file.
    pub path: String,
    /// Its address in the file.
    pub start: u64,
    /// The name of the function.
    pub name: String,
}

/// The memory that the walks use.
pub struct Walks {
    by_table: Vec<StackFrame>,
    by_cfi: Vec<StackFrame>,
    pcs: Vec<u64>,
    context: UnwindContext<usize>,
    cache: CacheX86_64,
}

impl Default for Walks {
    fn default() -> Self {
        let (context, cache) = (UnwindContext::new(), CacheX86_64::new());
        Self { by_table: Vec::new(), by_cfi: Vec::new(), pcs: Vec::new(), context, cache }
    }
}

impl Comparison {
    /// Walks a sample's stack in three ways.
    pub fn add(
        &mut self,
        sample: &Sample,
        space: &Space<'_, '_>,
        unwinder: &Unwinder<'_>,
        walks: &mut Walks,
    ) {
        let Walks { by_table, by_cfi, pcs, context, cache } = walks;
        let table_end = walk_by_table(sample, space, by_table);
        let cfi_end = walk_by_cfi(sample, space, context, by_cfi);
        walk_by_framehop(sample, unwinder, cache, pcs);
        self.samples += 1;
        self.by_framehop += usize::from(by_cfi.iter().map(|frame| &frame.pc.0).eq(pcs.iter()));

        let shared = by_table.iter().zip(by_cfi.iter()).take_while(|(a, b)| a == b).count();
        self.frames += shared;
        let is_prefix = shared == by_table.len();
        let last = by_table.last().and_then(|frame| Place::of_frame(frame, space));
        match (&table_end, last) {
            (end, _) if is_prefix && by_cfi.len() == shared && *end == cfi_end => self.equal += 1,
            (End::NoRow, Some(place)) if is_prefix => *self.omitted.entry(place).or_default() += 1,
            (End::Register(_), Some(place)) if is_prefix => *self.unrestored.entry(place).or_default() += 1,
            (end, _) => {
                self.different += 1;
                if self.differences.len() < SHOWN {
                    let text = format!("table {by_table:x?} {end:?}\n    cfi {by_cfi:x?} {cfi_end:?}");
                    self.differences.push(text);
                }
            }
        }
        *self.ends.entry(cfi_end).or_default() += 1;
    }
}

impl Place {
    /// Returns the function of a frame, by the CFI.
    fn of_frame(frame: &StackFrame, space: &Space<'_, '_>) -> Option<Self> {
        let (image, address) = space.find(frame.lookup_address())?;
        let start = image.cfi.as_ref()?.function_at(address)?;
        Some(Self { path: image.path.to_string(), start, name: image.name_at(address) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} {} of {}", self.start, self.name, self.path)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} stacks, {} frames by table as by CFI", self.samples, self.frames)?;
        writeln!(f, "  {} stacks equal to the end", self.equal)?;
        for (function, count) in &self.omitted {
            writeln!(f, "  {count} end by table in an omitted function: {function}")?;
        }
        for (function, count) in &self.unrestored {
            writeln!(
                f,
                "  {count} end by table at a row that needs a register which no table restores: {function}"
            )?;
        }
        writeln!(f, "  {} stacks different", self.different)?;
        for difference in &self.differences {
            writeln!(f, "    {difference}")?;
        }
        let ends: Vec<_> = self.ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
        writeln!(f, "  by CFI they end: {}", ends.join(", "))?;
        writeln!(f, "  framehop finds the PCs of {} stacks", self.by_framehop)
    }
}
