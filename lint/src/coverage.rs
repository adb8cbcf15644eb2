//! Finds the code of a file, and the part of it that has rows. Every verb counts code with this module.

use std::cell::OnceCell;
use std::iter::Sum;
use std::ops::{Add, Range};

use cfipack_cfi::Functions;
use cfipack_container::{CallFrameSection, File, Section as FileSection, Symbols};
use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch};

use crate::Error;
use crate::padding::is_padding;

/// The size of the code in executable sections, in bytes. The parts `covered`, `gap_bytes` and `padding_bytes` add up
/// to `code`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CodeBytes {
    /// All code.
    pub code: u64,
    /// Code with a row.
    pub covered: u64,
    /// Code without a row, except for padding.
    pub gap_bytes: u64,
    /// Padding: code without a row, and without instructions that do anything.
    pub padding_bytes: u64,
}

impl CodeBytes {
    /// Counts the code of a file that tables cover.
    ///
    /// This function reads the code between functions, because padding needs no rows. In a large library nearly every
    /// page of code has such bytes.
    ///
    /// # Errors
    /// A section of code cannot be read. Functions of the tables that cannot be read cover nothing.
    pub fn of_tables(file: &File<'_>, tables: &[Section<'_>]) -> Result<Self, Error> {
        let covered = merged(of_tables(tables).flatten().collect());
        Gaps::new(file, &covered).for_each(|_| {})
    }

    /// Returns how many bytes of code should have rows: all code except padding.
    pub fn wanted(&self) -> u64 {
        self.code - self.padding_bytes
    }

    /// Returns whether less than `percent` percent of the [wanted](Self::wanted) code has rows.
    pub fn is_below(&self, percent: f64) -> bool {
        (self.covered as f64) * 100.0 < percent * self.wanted() as f64
    }
}

impl Add for CodeBytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            code: self.code + other.code,
            covered: self.covered + other.covered,
            gap_bytes: self.gap_bytes + other.gap_bytes,
            padding_bytes: self.padding_bytes + other.padding_bytes,
        }
    }
}

impl Sum for CodeBytes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// Returns the addresses for which tables have rows. An error stands for a function that cannot be read.
pub fn of_tables<'t>(
    tables: &'t [Section<'_>],
) -> impl Iterator<Item = Result<Range<Address>, sframe::Error>> + 't {
    let functions = tables.iter().flat_map(Section::functions);
    functions.filter_map(|function| function.and_then(|function| with_rows(&function)).transpose())
}

/// Returns the addresses of a function from its first row on, or `None` if it has no row.
fn with_rows(function: &Function<'_>) -> Result<Option<Range<Address>>, sframe::Error> {
    let Some(first) = function.rows().next().transpose()? else { return Ok(None) };
    let end = function.start().offset(function.size().into());
    Ok(Some(function.start().offset(first.start.0.into())..end))
}

/// Returns the addresses of the functions that have call frame information. Omits FDEs that belong to no function.
///
/// # Errors
/// A record of the call frame information cannot be read.
pub fn of_cfi(sections: &[CallFrameSection<'_>]) -> Result<Vec<Range<Address>>, Error> {
    let mut covered = Vec::new();
    for section in sections {
        for function in Functions::new(&section.cfi()) {
            let function = function?;
            let start = function.key.address();
            covered.push(start..Address(start.0.saturating_add(function.size)));
        }
    }
    Ok(covered)
}

/// Merges ranges of addresses that overlap or touch, and sorts them.
pub fn merged(mut ranges: Vec<Range<Address>>) -> Vec<Range<Address>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<Address>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Finds the code of a file that is not covered.
#[derive(Debug)]
pub struct Gaps<'g, 'a> {
    file: &'g File<'a>,
    covered: &'g [Range<Address>],
    /// The file's symbols, read when they are first needed. Holds `None` if they cannot be read.
    symbols: OnceCell<Option<Symbols<'a>>>,
}

/// Consecutive code that is not covered, and that belongs to a single symbol or to no symbol.
#[derive(Debug)]
pub struct Gap<'s> {
    /// The addresses of the code.
    pub addresses: Range<Address>,
    /// The section of the code.
    pub section: &'s FileSection<'s>,
    /// True if all of the code is padding.
    pub is_padding: bool,
}

impl Gap<'_> {
    /// Returns the number of bytes.
    pub fn size(&self) -> u64 {
        self.addresses.end.0 - self.addresses.start.0
    }
}

impl<'g, 'a> Gaps<'g, 'a> {
    /// Looks for the code of a file outside of `covered`. The ranges in `covered` have to be [merged()].
    pub fn new(file: &'g File<'a>, covered: &'g [Range<Address>]) -> Self {
        Self { file, covered, symbols: OnceCell::new() }
    }

    /// Calls `found` with each gap, in the order of addresses, and counts the code.
    ///
    /// # Errors
    /// A section of code cannot be read.
    pub fn for_each(&self, mut found: impl FnMut(Gap<'_>)) -> Result<CodeBytes, Error> {
        let mut sections = self.file.code_sections()?;
        sections.sort_by_key(|section| section.address);
        let mut bytes = CodeBytes::default();
        for section in &sections {
            bytes.code += section.bytes.len().to_u64();
            self.in_section(section, &mut |gap: Gap<'_>| {
                let kind = if gap.is_padding { &mut bytes.padding_bytes } else { &mut bytes.gap_bytes };
                *kind += gap.size();
                found(gap);
            });
        }
        bytes.covered = bytes.code - bytes.gap_bytes - bytes.padding_bytes;
        Ok(bytes)
    }

    fn in_section(&self, section: &FileSection<'_>, found: &mut impl FnMut(Gap<'_>)) {
        let end = section.address.offset(section.bytes.len() as i64);
        let mut at = section.address;
        let first = self.covered.partition_point(|range| range.end <= at);
        let inside = self.covered[first..].iter().take_while(|range| range.start < end);
        for next in inside.cloned().chain([end..end]) {
            if at < next.start {
                self.in_gap(section, at..next.start, found);
            }
            at = next.end;
        }
    }

    /// Divides a gap into pieces, and calls `found` with each. A piece ends at the next symbol, or at the end of a
    /// symbol's code if only padding follows.
    fn in_gap(&self, section: &FileSection<'_>, gap: Range<Address>, found: &mut impl FnMut(Gap<'_>)) {
        let arch: Arch = self.file.arch();
        let code = |range: &Range<Address>| {
            let offset = |address: Address| (address.0 - section.address.0).to_usize();
            &section.bytes[offset(range.start)..offset(range.end)]
        };
        // Between functions nearly every gap is padding.
        if is_padding(arch, code(&gap)) {
            return found(Gap { addresses: gap, section, is_padding: true });
        }
        let symbols = self.symbols.get_or_init(|| self.file.symbols().ok()).as_ref();
        let mut at = gap.start;
        while at < gap.end {
            let next = symbols.and_then(|symbols| symbols.next_after(at));
            let next = next.map_or(gap.end, |next| next.min(gap.end));
            let extent = symbols.and_then(|symbols| symbols.extent(at));
            let extent = extent.map_or(next, |extent| extent.end.min(next));
            // Padding after a symbol's code does not belong to the symbol. Other code there has no symbol, and stays
            // with this piece.
            let middle = if is_padding(arch, code(&(extent..next))) { extent } else { next };
            for piece in [at..middle, middle..next] {
                if piece.start < piece.end {
                    let is_padding = is_padding(arch, code(&piece));
                    found(Gap { addresses: piece, section, is_padding });
                }
            }
            at = next;
        }
    }
}
