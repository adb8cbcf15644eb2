//! Adds `.cfi_*` directives to an assembler source, from the code of the object that was made of it.
//!
//! - `lines` splits the source into lines and statements.
//! - `statements` compares a statement with a mnemonic, and knows the directives that make bytes.
//! - `sections` knows the section of each place in the source, and `conditions` the arm of a condition.
//! - `places` finds the place in the source of each instruction of the object, with the object's line table.
//! - `starts` finds the start of a function, also if the line table does not have it.
//! - `walk` finds the places without a line table.
//! - `directives` writes rows as directives.
//!
//! [`annotate()`] joins them: it makes rows from the code, and inserts their directives into the text.

mod conditions;
mod directives;
mod lines;
mod places;
mod sections;
mod starts;
mod statements;
mod walk;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use cfipack_code::{Code, Described, Flow, Instructions, Refused};
use cfipack_container::{File, Symbols};
use cfipack_format::Address;

use self::directives::directives;
use self::lines::{SourceLine, source_lines};
use self::places::{Place, Source};
use crate::sources::{self, line_sections};
use crate::synthesized::{self, WithoutCfi};
use crate::{Error, FileMemory};

/// The reason why a function gets no directives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Omission {
    /// No rows can be made from the code.
    Code(cfipack_code::Omission),
    /// A label without `.type NAME, @function` starts code that does not show by itself that it is a function.
    NoType,
    /// The line table has no line for an instruction that needs directives before it.
    NoLine,
    /// An instruction that needs directives before it comes from another file, for example an included one.
    OtherFile,
    /// An instruction that needs directives before it is on a line that makes code at several places, as a macro or
    /// `.rept` does.
    RepeatedLine,
    /// An instruction that needs directives before it is not the first of its line, and it is not certain that a
    /// particular statement makes it. For example, the line calls a macro.
    InsideLine,
    /// A directive would stand in an arm of a condition (`.if`, `#if`) that the function's label is not in. Another
    /// configuration would have only some of the directives.
    InCondition,
    /// The function's lines are mixed with the lines of another function, or of a function that already has directives.
    Interleaved,
    /// The object was not made of this text.
    OtherText,
}

impl Omission {
    /// Returns the name of the reason in reports, for example `no-line`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Code(omission) => omission.name(),
            Self::NoType => "no-type",
            Self::NoLine => "no-line",
            Self::OtherFile => "other-file",
            Self::RepeatedLine => "repeated-line",
            Self::InsideLine => "inside-a-line",
            Self::InCondition => "in-condition",
            Self::Interleaved => "interleaved",
            Self::OtherText => "other-text",
        }
    }
}

/// An annotated text.
#[derive(Debug, Default)]
pub struct Annotated {
    /// The text with directives.
    pub text: Vec<u8>,
    /// The number of functions that got directives.
    pub functions: u64,
    /// The number of added directives, without `.cfi_startproc` and `.cfi_endproc`.
    pub directives: u64,
    /// The functions, and other pieces of code, that got no directives. Ascending by address.
    pub omitted: Vec<Omitted>,
}

/// A function, or another piece of code, that got no directives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Omitted {
    /// The address of the code.
    pub start: Address,
    /// The symbol at the address, or the label in the text before it. The text need not have a label.
    pub name: Option<String>,
    /// The reason.
    pub omission: Omission,
    /// The number, from 1, of the line that shows the reason, if the source has it.
    pub line: Option<u64>,
    /// The name of the instruction that shows the reason. It may be the function's first.
    pub mnemonic: String,
}

/// Directives, and the place where they are inserted.
struct Insertion {
    place: Place,
    directives: Vec<String>,
}

/// Where directives may stand for the instructions of a function.
struct Places<'p> {
    /// Returns the place of an instruction.
    of: &'p dyn Fn(Address) -> Result<Place, Omission>,
    /// Returns the place behind what comes before an instruction.
    before: &'p dyn Fn(Address) -> Option<Place>,
}

/// A function, or another piece of code, and its directives, or the reason why it gets none and the address of the instruction
/// that shows it.
struct Piece {
    range: Range<Address>,
    insertions: Result<Vec<Insertion>, (Omission, Address)>,
}

/// Adds directives to the functions of an assembler source that have no directives.
///
/// `file` is the object that was made of `text`, with a line table (`-g`). `name` is the path of the text. Only the
/// last part of the path is compared with the names in the line table.
///
/// # Errors
/// The object cannot be read, has no line table, or has a line table without code of this text.
pub fn annotate(text: &[u8], name: &[u8], file: &File<'_>) -> Result<Annotated, Error> {
    let sections = line_sections(file)?;
    let table = sources::read(&sections, file)?;
    let own = base(name);
    let is_own: Vec<bool> = table.files.iter().map(|file| base(file.name) == own).collect();
    let lines = source_lines(file.arch(), text);
    // A text with `.loc` has the lines of its own source in the table.
    let has_lines =
        || lines.iter().flat_map(|line| &line.statements).any(|one| text[one.clone()].starts_with(b".loc"));
    if !table.lines.iter().any(|line| is_own[line.file]) && !has_lines() {
        let mut files: Vec<_> = table.lines.iter().map(|line| table.files[line.file].name).collect();
        files.sort_unstable();
        files.dedup();
        files.truncate(FILES_SHOWN);
        return Err(Error::OtherSource { name: own.to_vec(), others: files.join(&b", "[..]) });
    }
    let sections = file.call_frame_sections()?;
    let memory = FileMemory::new(file)?;
    let source = Source::new(file.arch(), text, &lines, &memory, table, is_own);
    let annotator = Annotator { file, memory: &memory, source: &source, symbols: file.symbols()? };
    let WithoutCfi { functions, others } = synthesized::described(file, &sections)?;
    let mut pieces: Vec<_> = functions
        .into_iter()
        .map(|(range, rows)| {
            let insertions = rows
                .map_err(|Refused { omission, offset }| {
                    (Omission::Code(omission), range.start.offset(offset.into()))
                })
                .and_then(|rows| annotator.insertions(&range, &rows));
            Piece { range, insertions }
        })
        .collect();
    pieces.extend(others.into_iter().map(|range| {
        let is_label = annotator.name(range.start).is_some();
        let omission =
            if is_label { Omission::NoType } else { Omission::Code(cfipack_code::Omission::NoEntry) };
        Piece { insertions: Err((omission, range.start)), range }
    }));
    omit_mixed(&source, &mut pieces);
    pieces.sort_by_key(|piece| piece.range.start);
    annotator.omit_with_parts(&mut pieces);
    let mut annotated = Annotated::default();
    let mut insertions = Vec::new();
    for Piece { range, insertions: own } in pieces {
        match own {
            Ok(own) => {
                annotated.functions += 1;
                insertions.extend(own);
            }
            Err((omission, at)) => annotated.omitted.push(annotator.omitted(range.start, omission, at)),
        }
    }
    annotated.write(text, &lines, insertions);
    Ok(annotated)
}

/// How many other source files an error names.
const FILES_SHOWN: usize = 4;

/// Returns the last part of a path.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// What is known about a source and its object.
struct Annotator<'a> {
    file: &'a File<'a>,
    memory: &'a FileMemory<'a>,
    source: &'a Source<'a>,
    symbols: Symbols<'a>,
}

impl Annotator<'_> {
    /// Returns the symbol at an address. Of several symbols, it is one that the text has as a label.
    fn name(&self, start: Address) -> Option<Cow<'_, str>> {
        let label = self.symbols.names(start).filter(|name| self.source.label(name.as_bytes()).is_some());
        label.last().or_else(|| self.symbols.names(start).last())
    }

    /// Returns the directives of a function and their places.
    ///
    /// # Errors
    /// The reason why the function gets no directives, and the address of the instruction that shows it.
    fn insertions(
        &self,
        range: &Range<Address>,
        rows: &Described,
    ) -> Result<Vec<Insertion>, (Omission, Address)> {
        let start = range.start;
        if let Some(other) = self.source.other_text(range) {
            return Err((Omission::OtherText, other));
        }
        let directives =
            directives(self.file.arch(), rows).ok_or((Omission::Code(cfipack_code::Omission::Cfa), start))?;
        // Another function jumps to this function with a frame in place. A caller in another file may call it without a
        // frame.
        let has_frame = directives.first().is_some_and(|first| !first.is_empty());
        if has_frame && self.symbols.is_global(start) {
            return Err((Omission::Code(cfipack_code::Omission::Entered), start));
        }
        let rows = rows.rows.iter().map(|row| start.offset(row.row.start.0.into()));
        let all = self.decoded(range);
        let last = all.iter().filter(|one| !one.is_padding).last().ok_or((Omission::NoLine, start))?;
        let last = start.offset(last.offset.into());
        let mut starts: Vec<_> = rows.zip(directives).collect();
        if let Some((_, first)) = starts.first_mut() {
            first.insert(0, START.to_owned());
        }
        let name = self.name(start).unwrap_or_default();
        let before = |address: Address| match address {
            _ if address == start => self.source.behind_label(name.as_bytes()),
            _ if all.falls_into((address.0 - start.0) as u32) => self.source.behind_line(address),
            _ => None,
        };
        let by_lines = |address| match address {
            _ if address == start => self.source.start(range, name.as_bytes()),
            _ => self.source.place(address),
        };
        let end = self.source.end(last, range);
        let places = Places { of: &by_lines, before: &before };
        self.joined(&starts, &places, (last, end), name.as_bytes()).or_else(|refused| {
            let walk = self.source.walk(range, name.as_bytes(), last).ok_or(refused)?;
            let place = |address| walk.place(address).ok_or(refused.0);
            let places = Places { of: &place, before: &before };
            self.joined(&starts, &places, (last, Ok(walk.end)), name.as_bytes())
        })
    }

    /// Joins the directives of a function with their places: those of its rows, with their addresses, and the `end` after its
    /// last instruction. The places have to be in one section, in the order of the code, and in the same arms of conditions as
    /// the function's label. If the place of an instruction is not, the place before it counts.
    fn joined(
        &self,
        starts: &[(Address, Vec<String>)],
        places: &Places<'_>,
        (last, end): (Address, Result<Place, Omission>),
        name: &[u8],
    ) -> Result<Vec<Insertion>, (Omission, Address)> {
        let mut insertions: Vec<Insertion> = Vec::new();
        for (address, directives) in starts {
            let previous = insertions.last().map(|last| last.place);
            let place = (places.of)(*address).and_then(|place| self.allowed(name, previous, place)).or_else(
                |omission| {
                    let place = (places.before)(*address).ok_or(omission)?;
                    self.allowed(name, previous, place).map_err(|_| omission)
                },
            );
            let place = place.map_err(|omission| (omission, *address))?;
            insertions.push(Insertion { place, directives: directives.clone() });
        }
        let previous = insertions.last().map(|last| last.place);
        let place = end.and_then(|place| self.allowed(name, previous, place));
        let place = place.map_err(|omission| (omission, last))?;
        insertions.push(Insertion { place, directives: vec![END.to_owned()] });
        Ok(insertions)
    }

    /// Returns a place if directives of a function may stand there, after those at `previous`.
    fn allowed(&self, name: &[u8], previous: Option<Place>, place: Place) -> Result<Place, Omission> {
        let Source { sections, conditions, repeated, .. } = self.source;
        let before = previous.unwrap_or(place);
        let label = self.source.label(name).map_or(before.at, |label| label.end);
        if previous.is_some_and(|previous| previous >= place)
            || sections.at(before.at) != sections.at(place.at)
        {
            Err(Omission::Interleaved)
        } else if repeated.contains(&place.line) {
            Err(Omission::RepeatedLine)
        } else if conditions.at(label) != conditions.at(place.at) {
            Err(Omission::InCondition)
        } else {
            Ok(place)
        }
    }

    /// Omits each function that jumps into code without directives: into a part of its own, or into the middle of another
    /// function. A jump to the start of a function with a name is a call. The pieces have to be ascending.
    fn omit_with_parts(&self, pieces: &mut [Piece]) {
        let mut jumps = Vec::new();
        for (index, piece) in pieces.iter().enumerate().filter(|piece| piece.1.insertions.is_ok()) {
            for instruction in self.decoded(&piece.range).iter() {
                let (Flow::Jump(Some(target)) | Flow::Branch(Some(target), _)) = instruction.flow else {
                    continue;
                };
                let other = pieces.partition_point(|other| other.range.end <= target);
                let is_into = pieces.get(other).is_some_and(|piece| {
                    piece.range.contains(&target)
                        && (piece.range.start != target || self.name(target).is_none())
                });
                if is_into && other != index {
                    jumps.push((index, other));
                }
            }
        }
        let mut is_changed = true;
        while std::mem::take(&mut is_changed) {
            for (from, into) in &jumps {
                if let (Ok(_), Err(refused)) = (&pieces[*from].insertions, &pieces[*into].insertions) {
                    pieces[*from].insertions = Err(*refused);
                    is_changed = true;
                }
            }
        }
    }

    fn decoded(&self, range: &Range<Address>) -> Instructions {
        let code = self.memory.code(range.start, range.end.0 - range.start.0);
        let (bytes, relocated) = code.unwrap_or_default();
        Instructions::new(&Code { arch: self.file.arch(), start: range.start, bytes, relocated: &relocated })
    }

    /// Describes a function that got no directives. The instruction at `at` shows the reason.
    fn omitted(&self, start: Address, omission: Omission, at: Address) -> Omitted {
        let label = || {
            let label = self.source.label(self.name(start)?.as_bytes())?;
            Some(self.source.line_of(label.end))
        };
        let is_start = at == start;
        let line = if is_start { label() } else { None };
        let line = line.or_else(|| self.source.line_at(at)).or_else(label);
        let name = self.name(start).map(Cow::into_owned).or_else(|| self.source.label_before(start));
        let first = self.source.instructions(&(at.0..at.0 + LONGEST)).unwrap_or_default().into_iter().next();
        let mnemonic = first.map_or(String::new(), |first| first.without_prefixes);
        Omitted { start, name, omission, line, mnemonic }
    }
}

const START: &str = ".cfi_startproc";
const END: &str = ".cfi_endproc";
/// The most bytes that an instruction has.
const LONGEST: u64 = 15;

/// Omits the functions that share a line with another function of their section.
fn omit_mixed(source: &Source<'_>, pieces: &mut [Piece]) {
    // Each span has its section, its start, its end, and its piece.
    let mut spans: Vec<(u32, usize, usize, Option<usize>)> = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        if let Ok([first, .., last]) = piece.insertions.as_deref() {
            let (start, end) = (first.place.at, last.place.at);
            spans.push((source.sections.at(start), start, end, Some(index)));
        }
    }
    // The places where the text already has functions with directives.
    for statement in source.lines.iter().flat_map(|line| &line.statements) {
        if source.text[statement.clone()].starts_with(START.as_bytes()) {
            let start = statement.start;
            spans.push((source.sections.at(start), start, start + 1, None));
        }
    }
    spans.sort_unstable();
    // The span that ends last so far in its section.
    let mut last = (0, 0, 0, None);
    for span in spans {
        if last.0 == span.0 && last.2 > span.1 {
            for index in [last.3, span.3].into_iter().flatten() {
                pieces[index].insertions = Err((Omission::Interleaved, pieces[index].range.start));
            }
        }
        if last.0 != span.0 || last.2 < span.2 {
            last = span;
        }
    }
}

impl Annotated {
    /// Writes the text with the directives of functions. At one place, they stay in the order of the code.
    fn write(&mut self, text: &[u8], lines: &[SourceLine], mut insertions: Vec<Insertion>) {
        insertions.sort_by_key(|insertion| insertion.place.at);
        let mut done = 0;
        let ends_with_return = lines.first().is_some_and(|line| text[line.range.clone()].ends_with(b"\r"));
        let newline = if ends_with_return { "\r\n" } else { "\n" };
        for Insertion { place, directives } in insertions {
            self.text.extend_from_slice(&text[done..place.at]);
            done = place.at;
            let changes = directives.iter().filter(|directive| *directive != START && *directive != END);
            self.directives += changes.count() as u64;
            if place.is_inside {
                for directive in &directives {
                    self.text.extend_from_slice(format!("{directive}; ").as_bytes());
                }
                continue;
            }
            if self.text.last().is_some_and(|byte| *byte != b'\n') {
                self.text.extend_from_slice(newline.as_bytes());
            }
            for directive in &directives {
                self.text.extend_from_slice(format!("\t{directive}{newline}").as_bytes());
            }
        }
        self.text.extend_from_slice(&text[done..]);
    }
}

/// Counts the omitted functions for each reason.
pub fn reasons(annotated: &Annotated) -> BTreeMap<&'static str, u64> {
    let mut reasons = BTreeMap::new();
    for omitted in &annotated.omitted {
        *reasons.entry(omitted.omission.name()).or_default() += 1;
    }
    reasons
}
