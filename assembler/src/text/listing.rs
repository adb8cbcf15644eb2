//! Listings of the GNU assembler: the offsets that it printed.

use alloc::vec::Vec;

use cfipack_format::{Arch, Family};

use super::collect::{Collector, Kind, Statement};
use super::conditions::{Conditions, Role};
use super::diagnostic::{Diagnostics, Span};
use super::rows::{Row, Rows};
use super::sections::PlaceId;
use super::statement::{Splitter, Syntax, after_labels, find};
use super::{Format, Problem, Unit};

/// Source bytes of a row that may be cut: what gas shows at its default width, and at most.
const CUT_LENGTHS: [usize; 2] = [99, 199];
/// Rows that the bytes of one statement take at most, unless `--listing-cont-lines` says otherwise. With that more rows
/// are as many as are needed, unless a gap after as many rows shows that they are not.
const MOST_ROWS: u32 = 5;

pub(super) fn read<'t>(
    arch: Arch,
    source: Option<&'t [u8]>,
    text: &'t [u8],
) -> Result<Unit, Diagnostics<'t>> {
    let mut listing = Listing {
        collector: Collector::new(arch, Format::Elf),
        splitter: Splitter::new(Syntax::new(arch, Format::Elf)),
        conditions: Conditions::default(),
        source: source.map(lines),
        most_rows: u32::MAX,
        longest: 0,
        text,
        is_wide: None,
    };
    let mut rows = Rows::new(text);
    while let Some(row) = rows.next() {
        match row {
            Ok(row) => listing.row(&row, &rows),
            Err(fault) => listing.collector.faults.push(fault),
        }
    }
    let mut collector = listing.collector;
    let most_rows = listing.most_rows;
    // A statement of as many rows as gas lists at most by default is whole where another has more.
    let is_longer_listed = listing.longest > MOST_ROWS;
    let cut = collector
        .places
        .iter()
        .filter(|place| {
            let is_whole = is_longer_listed && place.rows == MOST_ROWS;
            place.is_cut && !is_whole || place.rows >= most_rows
        })
        .filter_map(|place| place.cfi);
    for span in cut.collect::<Vec<_>>() {
        collector.fault(span, Problem::CutBytes);
    }
    collector.resolve_ends();
    collector.finish(text, &[])
}

fn lines(source: &[u8]) -> Vec<&[u8]> {
    source.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect()
}

struct Listing<'t> {
    collector: Collector<'t>,
    splitter: Splitter,
    conditions: Conditions<'t>,
    /// The lines of the assembled file.
    source: Option<Vec<&'t [u8]>>,
    /// Rows after which bytes were missing.
    most_rows: u32,
    /// The most rows that a statement has.
    longest: u32,
    text: &'t [u8],
    /// `true` if some row is longer than those of gas's default width, once that was asked.
    is_wide: Option<bool>,
}

/// The effects of a row's statements.
#[derive(Default)]
struct RowState {
    /// True if the columns are those of the code.
    has_emitted: bool,
    has_cfi: bool,
    section_changed: bool,
    /// True if a statement made bytes in another section than the one in which the row starts.
    is_elsewhere: bool,
    is_expanded: bool,
    /// Bytes of each instruction of the row, if they are known, and how many instructions have theirs.
    each: Option<u64>,
    instructions: u64,
}

impl<'t> Listing<'t> {
    fn row(&mut self, row: &Row<'t>, rows: &Rows<'t>) {
        let (line, is_in_place) = self.line_of(row);
        let mut at = 0;
        let mut state = RowState { each: self.size_of_each(row, line), ..RowState::default() };
        let home = self.collector.sections.current();
        while let Some(piece) = self.splitter.next(line, &mut at) {
            let text = &line[piece.start..piece.end];
            let base = if is_in_place { row.at + piece.start } else { row.at };
            let statement = Statement { text, base, is_in_place };
            match self.conditions.role(statement, rows, &mut self.collector) {
                Role::Assembled => {}
                Role::Skipped => continue,
                Role::Expanded => {
                    state.is_expanded = true;
                    continue;
                }
            }
            if let Some(problem) = piece.problem {
                // A string may be cut where a row ends.
                if !is_cut(row, is_in_place) {
                    let span = self.collector.span(statement, 0, text.len());
                    self.collector.fault(span, problem.clone());
                }
            }
            self.statement(statement, row, home, &mut state);
        }
        if state.has_emitted || state.is_expanded {
            return;
        }
        // A row with nothing but a comment has the bytes of the statement after the comment's end.
        if let Some(bytes) = row.bytes
            && !state.has_cfi
            && !state.section_changed
        {
            self.emit(row, bytes);
        }
    }

    /// Bytes of each instruction of a row with several, where the architecture has instructions of one size: nothing
    /// but instructions makes bytes there, and the row has theirs.
    fn size_of_each(&self, row: &Row<'t>, line: &'t [u8]) -> Option<u64> {
        let size = instruction_size(self.collector.arch)?;
        let (_, count) = row.bytes?;
        let (mut splitter, mut at, mut instructions) = (self.splitter.clone(), 0, 0);
        while let Some(piece) = splitter.next(line, &mut at) {
            let text = &line[piece.start..piece.end];
            match text[after_labels(text)..] {
                [] => {}
                [b'.', ref directive @ ..] if directive.starts_with(b"cfi_") => {}
                [byte, ..] if byte.is_ascii_alphabetic() => instructions += 1,
                _ => return None,
            }
        }
        (instructions > 1 && instructions * size == count).then_some(size)
    }

    /// The row's source, and whether that is what the listing shows.
    fn line_of(&mut self, row: &Row<'t>) -> (&'t [u8], bool) {
        if !CUT_LENGTHS.contains(&row.source.len()) || (row.source.len() == CUT_LENGTHS[0] && self.is_wide())
        {
            return (row.source, true);
        }
        let whole = self.source.as_ref().and_then(|lines| {
            let index = usize::try_from(row.line).ok()?.checked_sub(1)?;
            if row.is_expansion { None } else { Some(lines.get(index).copied().unwrap_or_default()) }
        });
        let Some(whole) = whole else {
            self.check_cut(row);
            return (row.source, true);
        };
        if !whole.starts_with(row.source) {
            let span = Span { start: row.at as u32, length: row.source.len() as u32 };
            self.collector.fault(span, Problem::OtherSource);
        }
        (whole, false)
    }

    /// Returns whether the listing is wider than gas makes it by default.
    fn is_wide(&mut self) -> bool {
        let text = self.text;
        *self.is_wide.get_or_insert_with(|| {
            let mut rows = Rows::new(text);
            let is_longer = |row: Result<Row<'_>, _>| row.is_ok_and(|row| row.source.len() > CUT_LENGTHS[0]);
            core::iter::from_fn(move || rows.next()).any(is_longer)
        })
    }

    /// Refuses a cut row unless what is lost cannot matter.
    fn check_cut(&mut self, row: &Row<'t>) {
        let source = row.source.trim_ascii_start();
        let word = source.split(|&byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        let is_harmless = matches!(
            word,
            b".string"
                | b".ascii"
                | b".asciz"
                | b".ident"
                | b".file"
                | b".type"
                | b".size"
                | b".globl"
                | b".weak"
                | b".hidden"
                | b".set"
                | b".loc"
        ) || source.starts_with(b"#")
            || source.starts_with(b"/")
            || self.splitter.is_in_comment();
        let matters = self.collector.place().open.is_some()
            || matches!(word, b".section" | b".pushsection")
            || word.starts_with(b".cfi_")
            || find(source, b";").is_some()
            // A label, with anything after it.
            || !source.iter().any(|&byte| matches!(byte, b' ' | b'\t'));
        if matters && !is_harmless {
            let span = Span { start: row.at as u32, length: row.source.len() as u32 };
            self.collector.fault(span, Problem::CutLine);
        }
    }

    fn statement(&mut self, statement: Statement<'t>, row: &Row<'t>, home: PlaceId, state: &mut RowState) {
        match self.collector.statement(statement) {
            Kind::Label | Kind::Silent => {}
            Kind::Cfi => state.has_cfi = true,
            Kind::Section => state.section_changed = true,
            Kind::Align(word, operands) => {
                if super::plain::alignment(&self.collector, statement, word, operands).is_none_or(|n| n > 1) {
                    self.collector.aligned();
                }
                self.code(statement, row, home, state);
            }
            Kind::Other(..) if row.bytes.is_none() => self.unlisted(),
            Kind::Other(..) => self.code(statement, row, home, state),
        }
    }

    /// A statement whose bytes, if it makes any, the listing does not have.
    fn unlisted(&mut self) {
        let place = self.collector.place();
        let (end, is_cut) = (place.end, place.is_cut);
        (place.is_cut, place.rows) = (true, 0);
        if !is_cut {
            self.collector.resolve(end);
        }
    }

    /// A statement that makes the bytes of its row, if there are any.
    fn code(&mut self, statement: Statement<'t>, row: &Row<'t>, home: PlaceId, state: &mut RowState) {
        let Some(mut bytes) = row.bytes else { return };
        if let Some(size) = state.each {
            bytes = (bytes.0 + state.instructions * size, size);
            state.instructions += 1;
            state.has_emitted = false;
        }
        if self.collector.sections.current() != home {
            // The bytes are of another section than the one in which the row starts.
            if self.collector.place().open.is_some() {
                let span = self.collector.span(statement, 0, statement.text.len());
                self.collector.fault(span, Problem::SectionOnLine);
            }
            self.unlisted();
            state.is_elsewhere = true;
        } else if state.has_emitted {
            if let Some(span) = self.collector.place().cfi {
                self.collector.fault(span, Problem::BetweenInstructions);
                self.collector.resolve(bytes.0);
            }
        } else {
            state.has_emitted = true;
            self.emit(row, bytes);
        }
    }

    fn emit(&mut self, row: &Row<'t>, (found, count): (u64, u64)) {
        let span = Span { start: row.at as u32, length: row.source.len() as u32 };
        let place = self.collector.place();
        let (expected, is_open) = (place.end, place.cfi.is_some() || place.open.is_some());
        if found > expected && place.rows > 0 {
            self.most_rows = self.most_rows.min(place.rows);
        }
        if is_open && found < expected {
            self.collector.fault(span, Problem::OffsetBackwards { expected, found });
        } else if is_open && found > expected && !place.is_cut {
            self.collector.fault(span, Problem::MissingBytes { expected, found });
        }
        self.collector.emit(found, found + count);
        self.longest = self.longest.max(row.rows);
        let is_cut = row.rows == MOST_ROWS || row.rows >= self.most_rows;
        let place = self.collector.place();
        (place.is_cut, place.rows) = (is_cut, row.rows);
    }
}

/// Bytes of an instruction, where all have as many.
fn instruction_size(arch: Arch) -> Option<u64> {
    match arch.family() {
        Family::Aarch64 => Some(4),
        Family::X86 | Family::S390x | Family::Riscv => None,
    }
}

/// Returns whether the end of a row's source may be missing.
fn is_cut(row: &Row<'_>, is_in_place: bool) -> bool {
    is_in_place && CUT_LENGTHS.contains(&row.source.len())
}
