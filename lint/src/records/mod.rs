//! Checks the records of the call frame information (CFI), without a look at the code that their rows describe.
//!
//! - `index` checks the index in `.eh_frame_hdr`, by which unwinders find the FDE of a PC.
//! - `disputed` finds FDEs that start at one address and disagree.
//! - [`readers`] finds constructs that some reader does not read as they are meant.
//! - This file checks where the code of each FDE is.

mod disputed;
mod index;
pub mod readers;

use std::ops::Range;

use cfipack_cfi::Functions;
use cfipack_code::{Analysis, Code, Instructions, State, Ways};
use cfipack_container::{CallFrameSection, Error, File, Kind, Symbols};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch};

use crate::FileMemory;
use crate::coverage::merged;

/// The kind of a fault in the records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RecordKind {
    /// The entry of the index is for a lower address than the entry before it.
    IndexOrder,
    /// The entry of the index does not lead to an FDE that starts at its address.
    IndexEntry,
    /// The index has no entry for the FDE.
    IndexMissing,
    /// The index leads to an empty FDE, or a shorter one, for code that another FDE describes.
    HiddenFde,
    /// Two FDEs of a section describe the same code, with different starts or ends.
    Overlap,
    /// FDEs that start at one address disagree.
    Disputed,
    /// The FDE of an object describes no code.
    Empty,
    /// The FDE describes addresses without code.
    OutsideCode,
    /// Part of a function has an FDE, and another part has none.
    Uncovered,
    /// Some reader does not read the record as it is meant.
    Unread,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::IndexOrder,
        Self::IndexEntry,
        Self::IndexMissing,
        Self::HiddenFde,
        Self::Overlap,
        Self::Disputed,
        Self::Empty,
        Self::OutsideCode,
        Self::Uncovered,
        Self::Unread,
    ];

    /// Returns the name in reports, for example `index-order`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IndexOrder => "index-order",
            Self::IndexEntry => "index-entry",
            Self::IndexMissing => "index-missing",
            Self::HiddenFde => "hidden-fde",
            Self::Overlap => "overlap",
            Self::Disputed => "disputed",
            Self::Empty => "empty-fde",
            Self::OutsideCode => "outside-code",
            Self::Uncovered => "uncovered",
            Self::Unread => "unread",
        }
    }

    /// Returns a sentence that describes the kind.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::IndexOrder => "An entry of .eh_frame_hdr is for a lower address than the entry before it.",
            Self::IndexEntry => {
                "An entry of .eh_frame_hdr does not lead to an FDE that starts at the entry's address."
            }
            Self::IndexMissing => ".eh_frame_hdr has no entry for an FDE.",
            Self::HiddenFde => {
                ".eh_frame_hdr leads to an empty or shorter FDE for code that another FDE describes."
            }
            Self::Overlap => "Two FDEs describe the same code.",
            Self::Disputed => "FDEs that start at one address disagree.",
            Self::Empty => "The FDE of an object describes no code.",
            Self::OutsideCode => "An FDE describes addresses without code.",
            Self::Uncovered => "Part of a function is outside of its FDE.",
            Self::Unread => "Some reader does not read the record as it is meant.",
        }
    }
}

/// A fault in the records.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RecordFinding {
    /// The kind of the fault.
    pub kind: RecordKind,
    /// The start of the function.
    pub function: Address,
    /// The addresses for which unwinders find no row, or a wrong one.
    pub wrong: Range<Address>,
    /// The name of the section that has the record, and the offset in it. `None` if a record is missing.
    pub record: Option<(String, u64)>,
    /// A sentence that says what is wrong.
    pub words: String,
}

/// An FDE.
#[derive(Clone, Copy, Debug)]
struct Fde {
    /// The index of its section.
    section: usize,
    /// The offset of the record in the section.
    offset: u64,
    start: Address,
    end: Address,
}

impl Fde {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Finds the faults in the records of a file. Records that cannot be read, and FDEs that do not count, are skipped.
///
/// # Errors
/// `.eh_frame_hdr` or the sections of code cannot be read.
pub fn check(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    symbols: &Symbols<'_>,
    memory: &FileMemory<'_>,
) -> Result<Vec<RecordFinding>, Error> {
    let mut fdes = Vec::new();
    for (section, call_frames) in sections.iter().enumerate() {
        fdes.extend(Functions::new(&call_frames.cfi()).flatten().map(|function| {
            let start = function.key.address();
            let end = Address(start.0.saturating_add(function.size));
            Fde { section, offset: function.fde.0.to_u64(), start, end }
        }));
    }
    fdes.sort_by_key(|fde| (fde.section, fde.start, fde.end));
    let mut findings = Vec::new();
    // A debug file has the addresses of its code and of its index, and neither of the two.
    let is_debug_file = file.as_elf().is_some_and(|elf| elf.is_debug_file());
    let elf = file.as_elf().filter(|_| !is_debug_file);
    if let Some(index) = elf.map(|elf| elf.fde_index()).transpose()?.flatten() {
        index::check(&index, sections, &fdes, &mut findings);
    }
    let name = |fde: &Fde| Some((sections[fde.section].section.name.to_string(), fde.offset));
    overlaps(&fdes, name, &mut findings);
    disputed::check(sections, &mut findings);
    if file.kind() == Kind::Relocatable {
        empty(&fdes, name, &mut findings);
    }
    if !is_debug_file {
        outside_code(file, &fdes, name, &mut findings)?;
    }
    let covered = merged(fdes.iter().map(|fde| fde.start..fde.end).collect());
    uncovered(file, symbols, memory, &covered, &mut findings);
    findings.sort_by_key(|finding| (finding.wrong.start, finding.kind));
    Ok(findings)
}

/// Finds FDEs of the same section that describe the same code. FDEs for the same range are no fault here: a linker that
/// merges identical functions keeps the FDE of each, and `disputed` evaluates disagreements.
fn overlaps(fdes: &[Fde], name: impl Fn(&Fde) -> Option<(String, u64)>, found: &mut Vec<RecordFinding>) {
    // The FDE with the highest end so far.
    let mut before: Option<&Fde> = None;
    for fde in fdes.iter().filter(|fde| !fde.is_empty()) {
        if let Some(other) = before.filter(|other| other.section == fde.section && fde.start < other.end) {
            let wrong = fde.start..fde.end.min(other.end);
            if (fde.start, fde.end) != (other.start, other.end) {
                let bytes = wrong.end.0 - wrong.start.0;
                let words = format!("another FDE describes {bytes:#x} bytes of its code too");
                let (kind, record) = (RecordKind::Overlap, name(fde));
                found.push(RecordFinding { kind, function: fde.start, wrong, record, words });
            }
            if fde.end <= other.end {
                continue;
            }
        }
        before = Some(fde);
    }
}

/// Finds FDEs of an object that describe no code. Some linkers put them into the index, where they hide the function that
/// follows. In a linked file, the check of the index finds those that do.
fn empty(fdes: &[Fde], name: impl Fn(&Fde) -> Option<(String, u64)>, found: &mut Vec<RecordFinding>) {
    for fde in fdes.iter().filter(|fde| fde.is_empty()) {
        let words = "the FDE describes no code, and can hide the next function".to_owned();
        let (kind, record) = (RecordKind::Empty, name(fde));
        found.push(RecordFinding { kind, function: fde.start, wrong: fde.start..fde.start, record, words });
    }
}

/// Finds FDEs that describe addresses outside of the sections of code.
fn outside_code(
    file: &File<'_>,
    fdes: &[Fde],
    name: impl Fn(&Fde) -> Option<(String, u64)>,
    found: &mut Vec<RecordFinding>,
) -> Result<(), Error> {
    let sections = file.code_sections()?.into_iter();
    let code = merged(
        sections.map(|section| section.address..section.address.offset(section.bytes.len() as i64)).collect(),
    );
    for fde in fdes.iter().filter(|fde| !fde.is_empty()) {
        for wrong in without(fde.start..fde.end, &code) {
            let words = format!(
                "{:#x} of the {:#x} bytes that the FDE describes are outside of the executable sections",
                wrong.end.0 - wrong.start.0,
                fde.end.0 - fde.start.0
            );
            let (kind, record) = (RecordKind::OutsideCode, name(fde));
            found.push(RecordFinding { kind, function: fde.start, wrong, record, words });
        }
    }
    Ok(())
}

/// Finds code of functions that an FDE describes in part. Code that no path reaches from the start of the function is
/// padding, or data.
fn uncovered(
    file: &File<'_>,
    symbols: &Symbols<'_>,
    memory: &FileMemory<'_>,
    covered: &[Range<Address>],
    found: &mut Vec<RecordFinding>,
) {
    // Several symbols can name the same function, or parts of it. Each byte of code is followed once.
    let mut done = Address(0);
    for function in symbols.functions() {
        if function.start < done {
            continue;
        }
        done = function.end;
        let parts: Vec<_> = without(function.clone(), covered).collect();
        if parts.is_empty() || parts.first() == Some(&function) {
            continue;
        }
        for wrong in reached(file.arch(), memory, &function, parts) {
            let bytes = wrong.end.0 - wrong.start.0;
            let words = format!("{bytes:#x} bytes of the function are outside of its FDE");
            let (kind, function) = (RecordKind::Uncovered, function.start);
            found.push(RecordFinding { kind, function, wrong, record: None, words });
        }
    }
}

/// Returns the parts of a function in which a path from its start reaches an instruction. `parts` are ascending.
fn reached(
    arch: Arch,
    memory: &FileMemory<'_>,
    function: &Range<Address>,
    mut parts: Vec<Range<Address>>,
) -> Vec<Range<Address>> {
    let Some((bytes, relocated)) = memory.code(function.start, function.end.0 - function.start.0) else {
        return Vec::new();
    };
    let code = Code { arch, start: function.start, bytes, relocated: &relocated };
    let (instructions, entry) = (Instructions::new(&code), State::at_entry(arch));
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
    let mut is_reached = vec![false; parts.len()];
    Analysis::new(code, &instructions, memory, ways).for_each(|_, instruction, state| {
        let pc = function.start.offset(instruction.offset.into());
        let place = parts.partition_point(|part| part.end <= pc);
        if parts.get(place).is_some_and(|part| part.start <= pc) {
            is_reached[place] |= state.is_some() && !instruction.is_padding;
        }
    });
    let mut is_reached = is_reached.into_iter();
    parts.retain(|_| is_reached.next().unwrap_or(false));
    parts
}

/// Returns the parts of a range outside of all ranges in `others`. These ranges have to be [merged()].
fn without(range: Range<Address>, others: &[Range<Address>]) -> impl Iterator<Item = Range<Address>> + '_ {
    let first = others.partition_point(|other| other.end <= range.start);
    let end = range.end;
    let inside = others[first..].iter().take_while(move |other| other.start < end);
    let starts = std::iter::once(range.start).chain(inside.clone().map(|other| other.end));
    let ends = inside.map(|other| other.start).chain(std::iter::once(end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|part| part.start < part.end)
}
