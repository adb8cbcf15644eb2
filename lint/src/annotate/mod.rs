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

use cfipack_code::{Code, Described, Instructions, Refused};
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

/// A function with its directives.
struct Annotation {
    start: Address,
    insertions: Vec<Insertion>,
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
    let (mut annotations, mut omitted) = (Vec::new(), Vec::new());
    for (range, rows) in functions {
        let start = range.start;
        let insertions = match rows {
            Ok(rows) => annotator.insertions(&range, &rows),
            Err(Refused { omission, offset }) => Err((Omission::Code(omission), start.offset(offset.into()))),
        };
        match insertions {
            Ok(insertions) => annotations.push(Annotation { start, insertions }),
            Err((omission, at)) => omitted.push((start, omission, at)),
        }
    }
    for range in others {
        let is_label = annotator.name(range.start).is_some();
        let omission =
            if is_label { Omission::NoType } else { Omission::Code(cfipack_code::Omission::NoEntry) };
        omitted.push((range.start, omission, range.start));
    }
    let annotations =
        apart(&source, annotations, |start| omitted.push((start, Omission::Interleaved, start)));
    let mut annotated = Annotated { functions: annotations.len() as u64, ..Annotated::default() };
    omitted.sort_by_key(|(start, ..)| *start);
    annotated.omitted =
        omitted.into_iter().map(|(start, omission, at)| annotator.omitted(start, omission, at)).collect();
    annotated.write(text, &lines, annotations);
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
    /// Returns the symbol at an address.
    fn name(&self, start: Address) -> Option<Cow<'_, str>> {
        self.symbols.lookup(start).filter(|symbol| symbol.offset == 0).map(|symbol| symbol.name)
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
        if directives.first().is_some_and(|first| !first.is_empty()) {
            return Err((Omission::Code(cfipack_code::Omission::Entered), start));
        }
        let rows = rows.rows.iter().map(|row| start.offset(row.row.start.0.into()));
        let last = self.last_instruction(range).ok_or((Omission::NoLine, start))?;
        let mut starts: Vec<_> = rows.zip(directives).collect();
        if let Some((_, first)) = starts.first_mut() {
            first.insert(0, START.to_owned());
        }
        let name = self.name(start).unwrap_or_default();
        let by_lines = |address| match address {
            _ if address == start => self.source.start(range, name.as_bytes()),
            _ => self.source.place(address),
        };
        let end = || self.source.end(last, range);
        self.joined(&starts, by_lines, (last, end()), name.as_bytes()).or_else(|refused| {
            let walk = self.source.walk(range, name.as_bytes(), last).ok_or(refused)?;
            let place = |address| walk.place(address).ok_or(refused.0);
            self.joined(&starts, place, (last, Ok(walk.end)), name.as_bytes())
        })
    }

    /// Joins the directives of a function with their places: those of its rows, with their addresses, and the `end` after its
    /// last instruction. The places have to be in one section, in the order of the code, and in the same arms of conditions as
    /// the function's label.
    fn joined(
        &self,
        starts: &[(Address, Vec<String>)],
        place: impl Fn(Address) -> Result<Place, Omission>,
        (last, end): (Address, Result<Place, Omission>),
        name: &[u8],
    ) -> Result<Vec<Insertion>, (Omission, Address)> {
        let Source { sections, conditions, repeated, .. } = self.source;
        let rows = starts.iter().map(|(address, directives)| (*address, place(*address), directives.clone()));
        let mut insertions: Vec<Insertion> = Vec::new();
        for (address, place, directives) in rows.chain([(last, end, vec![END.to_owned()])]) {
            let place = place.map_err(|omission| (omission, address))?;
            let before = insertions.last().map_or(place, |last| last.place);
            let is_next = insertions.is_empty() || before < place;
            let label = self.source.label(name).map_or(before.at, |label| label.end);
            let omission = if !is_next || sections.at(before.at) != sections.at(place.at) {
                Omission::Interleaved
            } else if repeated.contains(&place.line) {
                Omission::RepeatedLine
            } else if conditions.at(label) != conditions.at(place.at) {
                Omission::InCondition
            } else {
                insertions.push(Insertion { place, directives });
                continue;
            };
            return Err((omission, address));
        }
        Ok(insertions)
    }

    /// Returns the last instruction of a function that is not padding.
    fn last_instruction(&self, range: &Range<Address>) -> Option<Address> {
        let (bytes, relocated) = self.memory.code(range.start, range.end.0 - range.start.0)?;
        let code = Code { arch: self.file.arch(), start: range.start, bytes, relocated: &relocated };
        let all = Instructions::new(&code);
        let last = all.as_slice().iter().rfind(|one| !one.is_padding)?;
        Some(range.start.offset(last.offset.into()))
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
        let first = self.source.instructions(&(at.0..at.0 + LONGEST)).unwrap_or_default().into_iter().next();
        Omitted { start, omission, line, mnemonic: first.map_or(String::new(), |first| first.mnemonic) }
    }
}

const START: &str = ".cfi_startproc";
const END: &str = ".cfi_endproc";
/// The most bytes that an instruction has.
const LONGEST: u64 = 15;

/// Returns the functions that share no line with another function, in the order of their lines. Calls `mixed` with the
/// starts of the other functions.
fn apart(
    source: &Source<'_>,
    mut described: Vec<Annotation>,
    mut mixed: impl FnMut(Address),
) -> Vec<Annotation> {
    let span = |function: &Annotation| {
        let place = |insertion: Option<&Insertion>| insertion.map_or(0, |insertion| insertion.place.at);
        (place(function.insertions.first()), place(function.insertions.last()))
    };
    // The places where the text already has functions with directives.
    let statements = source.lines.iter().flat_map(|line| &line.statements);
    let starts: Vec<usize> = statements
        .filter(|statement| source.text[(*statement).clone()].starts_with(START.as_bytes()))
        .map(|statement| statement.start)
        .collect();
    described.sort_by_key(span);
    let mut is_mixed = vec![false; described.len()];
    // The function that ends last so far, and its end.
    let mut last: Option<(usize, usize)> = None;
    for (index, function) in described.iter().enumerate() {
        let (start, end) = span(function);
        if let Some((other, _)) = last.filter(|last| last.1 > start) {
            (is_mixed[index], is_mixed[other]) = (true, true);
        }
        let next = starts.partition_point(|other| *other < start);
        is_mixed[index] |= starts.get(next).is_some_and(|other| *other < end);
        if last.is_none_or(|last| last.1 < end) {
            last = Some((index, end));
        }
    }
    let mut kept = Vec::new();
    for (function, is_mixed) in described.into_iter().zip(is_mixed) {
        if is_mixed {
            mixed(function.start);
        } else {
            kept.push(function);
        }
    }
    kept
}

impl Annotated {
    /// Writes the text with the directives of functions. `described` has to be in the order of the text.
    fn write(&mut self, text: &[u8], lines: &[SourceLine], described: Vec<Annotation>) {
        let mut done = 0;
        let ends_with_return = lines.first().is_some_and(|line| text[line.range.clone()].ends_with(b"\r"));
        let newline = if ends_with_return { "\r\n" } else { "\n" };
        for Insertion { place, directives } in described.into_iter().flat_map(|one| one.insertions) {
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
