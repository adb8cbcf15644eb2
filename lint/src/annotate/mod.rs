//! Adds `.cfi_*` directives to an assembler source, from the code of the object that was made of it.
//!
//! - `lines` splits the source into lines and statements.
//! - `statements` compares a statement with a mnemonic, and knows the directives that make bytes.
//! - `places` finds the place in the source of each instruction of the object, with the object's line table.
//! - `directives` writes rows as directives.
//!
//! [`annotate()`] joins them: it makes rows from the code, and inserts their directives into the text.

mod directives;
mod lines;
mod places;
mod statements;

use std::collections::BTreeMap;
use std::ops::Range;

use cfipack_code::{Code, Instructions, Rows};
use cfipack_container::File;
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
            Self::NoLine => "no-line",
            Self::OtherFile => "other-file",
            Self::RepeatedLine => "repeated-line",
            Self::InsideLine => "inside-a-line",
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
    /// The start of each function that got no directives, and the reason. Ascending by address.
    pub omitted: Vec<(Address, Omission)>,
    /// The number of pieces of code that belong to no symbol of a function.
    pub unnamed: u64,
}

/// Directives, and the place where they are inserted.
struct Insertion {
    place: Place,
    directives: Vec<String>,
}

/// A function with its directives.
struct Described {
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
    if !table.lines.iter().any(|line| is_own[line.file]) {
        let mut files: Vec<_> = table.lines.iter().map(|line| table.files[line.file].name).collect();
        files.sort_unstable();
        files.dedup();
        files.truncate(FILES_SHOWN);
        return Err(Error::OtherSource { name: own.to_vec(), others: files.join(&b", "[..]) });
    }
    let sections = file.call_frame_sections()?;
    let memory = FileMemory::new(file)?;
    let lines = source_lines(file.arch(), text);
    let source = Source::new(file.arch(), text, &lines, &memory, table, is_own);
    let WithoutCfi { functions, others } = synthesized::described(file, &sections)?;
    let mut annotated = Annotated { unnamed: others.len() as u64, ..Annotated::default() };
    let mut described = Vec::new();
    for (range, rows) in functions {
        let insertions =
            rows.map_err(Omission::Code).and_then(|rows| insertions(file, &memory, &source, &range, &rows));
        match insertions {
            Ok(insertions) => described.push(Described { start: range.start, insertions }),
            Err(omission) => annotated.omitted.push((range.start, omission)),
        }
    }
    let described = apart(text, &lines, described, &mut annotated.omitted);
    annotated.functions = described.len() as u64;
    annotated.omitted.sort_by_key(|omitted| omitted.0);
    annotated.write(text, &lines, described);
    Ok(annotated)
}

/// How many other source files an error names.
const FILES_SHOWN: usize = 4;

/// Returns the last part of a path.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Returns the directives of a function and their places.
fn insertions(
    file: &File<'_>,
    memory: &FileMemory<'_>,
    source: &Source<'_>,
    range: &Range<Address>,
    rows: &Rows,
) -> Result<Vec<Insertion>, Omission> {
    if !source.is_of_text(range) {
        return Err(Omission::OtherText);
    }
    let directives = directives(file.arch(), rows).ok_or(Omission::Code(cfipack_code::Omission::Cfa))?;
    // Another function jumps to this function with a frame in place. A caller in another file may call it without a
    // frame.
    if directives.first().is_some_and(|first| !first.is_empty()) {
        return Err(Omission::Code(cfipack_code::Omission::Entered));
    }
    let mut all: Vec<Insertion> = Vec::new();
    for (row, mut directives) in rows.iter().zip(directives) {
        let place = source.place(range.start.offset(row.row.start.0.into()))?;
        if all.is_empty() {
            directives.insert(0, START.to_owned());
        }
        // The lines have to be in the order of the code.
        if all.last().is_some_and(|last| last.place >= place) {
            return Err(Omission::Interleaved);
        }
        all.push(Insertion { place, directives });
    }
    let last = last_instruction(file, memory, range).ok_or(Omission::NoLine)?;
    let place = source.end(last, range)?;
    if all.last().is_some_and(|last| last.place >= place) {
        return Err(Omission::Interleaved);
    }
    all.push(Insertion { place, directives: vec![END.to_owned()] });
    Ok(all)
}

const START: &str = ".cfi_startproc";
const END: &str = ".cfi_endproc";

/// Returns the last instruction of a function that is not padding.
fn last_instruction(file: &File<'_>, memory: &FileMemory<'_>, range: &Range<Address>) -> Option<Address> {
    let (bytes, relocated) = memory.code(range.start, range.end.0 - range.start.0)?;
    let code = Code { arch: file.arch(), start: range.start, bytes, relocated: &relocated };
    let all = Instructions::new(&code);
    let last = all.as_slice().iter().rfind(|one| !one.is_padding)?;
    Some(range.start.offset(last.offset.into()))
}

/// Returns the functions that share no line with another function, in the order of their lines. The other functions are
/// added to `omitted`.
fn apart(
    text: &[u8],
    lines: &[SourceLine],
    mut described: Vec<Described>,
    omitted: &mut Vec<(Address, Omission)>,
) -> Vec<Described> {
    let span = |function: &Described| {
        let place = |insertion: Option<&Insertion>| insertion.map_or(0, |insertion| insertion.place.at);
        (place(function.insertions.first()), place(function.insertions.last()))
    };
    // The places where the text already has functions with directives.
    let starts: Vec<usize> = lines
        .iter()
        .flat_map(|line| &line.statements)
        .filter(|statement| text[(*statement).clone()].starts_with(START.as_bytes()))
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
            omitted.push((function.start, Omission::Interleaved));
        } else {
            kept.push(function);
        }
    }
    kept
}

impl Annotated {
    /// Writes the text with the directives of functions. `described` has to be in the order of the text.
    fn write(&mut self, text: &[u8], lines: &[SourceLine], described: Vec<Described>) {
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

/// Counts the omitted functions for each reason. Code without a symbol is counted as `no-entry`.
pub fn reasons(annotated: &Annotated) -> BTreeMap<&'static str, u64> {
    let mut reasons = BTreeMap::new();
    for (_, omission) in &annotated.omitted {
        *reasons.entry(omission.name()).or_default() += 1;
    }
    if annotated.unnamed != 0 {
        *reasons.entry(cfipack_code::Omission::NoEntry.name()).or_default() += annotated.unnamed;
    }
    reasons
}
