//! Finds the place in a source of each instruction of its object.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use cfipack_code::{Code, Disassembler, Instructions, Text};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::{Line, Lines};

use super::Omission;
use super::conditions::Conditions;
use super::lines::{SourceLine, name_of_label};
use super::sections::Sections;
use super::statements::{
    agrees, called_macro, data_len, is_alignment, is_directive, is_macro, is_of_symbols, is_section, macros,
    makes_bytes, repeated_lines, word,
};
use crate::FileMemory;

/// A place in a text where directives are inserted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The directives stand before this byte of the text.
    pub at: usize,
    /// The line, from 0.
    pub line: usize,
    /// True if a statement stands before the directives on the same line.
    pub is_inside: bool,
}

/// A source, its lines, and the code that its object has for each line.
pub struct Source<'s> {
    pub arch: Arch,
    pub text: &'s [u8],
    pub lines: &'s [SourceLine],
    pub sections: Sections,
    pub conditions: Conditions,
    memory: &'s FileMemory<'s>,
    /// Pieces of code of this source and of other sources, ascending by address. Adjacent code of the same line is one
    /// piece.
    pub code: Vec<Line>,
    /// For each file of the line table: true if it is this source.
    pub is_own: Vec<bool>,
    /// How many pieces of `code` each line of this source has.
    pub pieces: BTreeMap<u64, u32>,
    /// The macros that the source defines.
    pub macros: BTreeSet<&'s [u8]>,
    /// The lines, from 0, whose text the assembler repeats.
    pub repeated: BTreeSet<usize>,
    /// Where each label is, or `None` for a label that occurs twice.
    labels: HashMap<&'s [u8], Option<Range<usize>>>,
    /// Names of instructions: first words of statements that agree with the first instruction of their line.
    names: BTreeSet<&'s [u8]>,
}

impl<'s> Source<'s> {
    /// Joins a text and the line table of its object. `is_own` is true for each file of the table that is this text.
    pub fn new(
        arch: Arch,
        text: &'s [u8],
        lines: &'s [SourceLine],
        memory: &'s FileMemory<'s>,
        table: Lines<'_>,
        is_own: Vec<bool>,
    ) -> Self {
        let mut code: Vec<Line> = Vec::new();
        for line in table.lines {
            match code.last_mut() {
                Some(last)
                    if (last.file, last.line) == (line.file, line.line)
                        && last.addresses.end == line.addresses.start =>
                {
                    last.addresses.end = line.addresses.end;
                }
                _ => code.push(line),
            }
        }
        let mut pieces = BTreeMap::new();
        for line in code.iter().filter(|line| is_own[line.file]) {
            *pieces.entry(line.line).or_default() += 1;
        }
        let mut labels = HashMap::new();
        for label in lines.iter().flat_map(|line| &line.labels) {
            let place =
                labels.entry(name_of_label(&text[label.clone()])).or_insert_with(|| Some(label.clone()));
            *place = place.take().filter(|place| place == label);
        }
        let (macros, names) = (macros(text), BTreeSet::new());
        let (sections, conditions) = (Sections::new(text, lines), Conditions::new(text, lines));
        let repeated = repeated_lines(text, lines);
        let mut source = Self {
            arch,
            text,
            lines,
            sections,
            conditions,
            memory,
            code,
            is_own,
            pieces,
            macros,
            repeated,
            labels,
            names,
        };
        source.names = source
            .code
            .iter()
            .filter_map(|piece| match source.compare(piece) {
                Some(Compared::Same(word)) => Some(word),
                _ => None,
            })
            .collect();
        source
    }

    /// Returns where a label is that occurs once.
    pub fn label(&self, name: &[u8]) -> Option<Range<usize>> {
        self.labels.get(name)?.clone()
    }

    /// Returns the number, from 1, of the line that makes the instruction at an address.
    pub fn line_at(&self, address: Address) -> Option<u64> {
        let piece = &self.code[self.piece_around(address)?];
        (self.is_own[piece.file] && piece.line != 0).then_some(piece.line)
    }

    /// Returns the last label before the line that makes the instruction at an address, in the same section.
    pub fn label_before(&self, address: Address) -> Option<String> {
        let line = self.lines.get(self.line_at(address)?.to_usize() - 1)?;
        let section = self.sections.at(line.range.end);
        let before = self.lines.iter().take_while(|other| other.range.start <= line.range.start);
        let labels = before.flat_map(|line| &line.labels);
        let label = labels.filter(|label| self.sections.at(label.end) == section).last()?;
        Some(String::from_utf8_lossy(name_of_label(&self.text[label.clone()])).into_owned())
    }

    /// Returns the place behind a label that occurs once.
    pub fn behind_label(&self, name: &[u8]) -> Option<Place> {
        let label = self.label(name)?;
        let line = self.lines.partition_point(|line| line.range.end < label.end);
        self.behind(line, label.end)
    }

    /// Returns the place behind the line that makes the instruction before an address.
    pub fn behind_line(&self, address: Address) -> Option<Place> {
        let piece = self.piece(Address(address.0.checked_sub(1)?)).ok()?;
        let is_end = self.code[piece].addresses.end == address.0;
        self.line(piece).ok().filter(|_| is_end).and_then(|line| self.after(line).ok())
    }

    /// Returns the place behind a place of a line.
    pub fn behind(&self, line: usize, at: usize) -> Option<Place> {
        match self.lines[line].statements.iter().find(|statement| statement.start >= at) {
            Some(statement) => Some(Place { at: statement.start, line, is_inside: true }),
            None => self.after(line).ok(),
        }
    }

    /// Returns the number, from 1, of the line with a place of the text.
    pub fn line_of(&self, place: usize) -> u64 {
        self.lines.partition_point(|line| line.range.end < place) as u64 + 1
    }

    fn piece_around(&self, address: Address) -> Option<usize> {
        let after = self.code.partition_point(|line| line.addresses.start <= address.0);
        let index = after.checked_sub(1)?;
        (address.0 < self.code[index].addresses.end).then_some(index)
    }

    /// Returns the index of the piece of code that contains an address.
    fn piece(&self, address: Address) -> Result<usize, Omission> {
        let index = self.piece_around(address).ok_or(Omission::NoLine)?;
        let line = &self.code[index];
        if !self.is_own[line.file] {
            return Err(Omission::OtherFile);
        }
        if self.pieces.get(&line.line) != Some(&1) {
            return Err(Omission::RepeatedLine);
        }
        Ok(index)
    }

    /// Returns the line of a piece of code, from 0.
    pub fn line(&self, piece: usize) -> Result<usize, Omission> {
        match usize::try_from(self.code[piece].line) {
            Ok(number @ 1..) if number <= self.lines.len() => Ok(number - 1),
            _ => Err(Omission::OtherText),
        }
    }

    /// Returns the place before the instruction at an address.
    ///
    /// # Errors
    /// The place is not certain, for example because the line makes several instructions.
    pub fn place(&self, address: Address) -> Result<Place, Omission> {
        let piece = self.piece(address)?;
        let line = self.line(piece)?;
        let own = &self.lines[line];
        let first = own.statements.first().ok_or(Omission::InsideLine)?;
        let text = &self.text[first.clone()];
        if is_directive(text) && data_len(self.arch, text).is_none() {
            return Err(Omission::InsideLine);
        }
        if self.code[piece].addresses.start != address.0 {
            return self.place_inside(piece, line, address);
        }
        if own.starts_in_comment {
            // The text after the comment can be the end of a statement of an earlier line.
            return match self.compare(&self.code[piece]) {
                Some(Compared::Same(_)) => Ok(Place { at: first.start, line, is_inside: true }),
                _ => Err(Omission::InsideLine),
            };
        }
        if self.is_continued(line) {
            return Err(Omission::InsideLine);
        }
        Ok(Place { at: own.range.start, line, is_inside: false })
    }

    /// Returns whether the preprocessor joins a line to the line before.
    pub fn is_continued(&self, line: usize) -> bool {
        line.checked_sub(1).is_some_and(|before| {
            let before = &self.text[self.lines[before].range.clone()];
            before.trim_ascii_end().ends_with(b"\\")
        })
    }

    /// Returns the place of an instruction that is not the first of its piece.
    ///
    /// This function goes over the statements of the line, and of the lines after it up to the next line with a piece.
    /// Each statement must make one instruction, or be data with the size of its instructions.
    fn place_inside(&self, piece: usize, line: usize, address: Address) -> Result<Place, Omission> {
        let range = &self.code[piece].addresses;
        let mut instructions =
            self.first_instructions(range).ok_or(Omission::InsideLine)?.into_iter().peekable();
        let next = self.pieces.range(self.code[piece].line + 1..).next().map(|next| next.0 - 1);
        let end = next.and_then(|next| usize::try_from(next).ok()).unwrap_or(self.lines.len());
        let after = self.lines.get(line..end.min(line + MAX_LINES)).unwrap_or_default();
        let section = self.lines[line].statements.first().map(|first| self.sections.at(first.start));
        for (number, own) in after.iter().enumerate() {
            for statement in &own.statements {
                let text = &self.text[statement.clone()];
                if section != Some(self.sections.at(statement.start)) {
                    continue;
                }
                let place = || {
                    let leads = number != 0
                        && !own.starts_in_comment
                        && own.statements.first().is_some_and(|one| one.start == statement.start);
                    let at = if leads { own.range.start } else { statement.start };
                    Place { at, line: line + number, is_inside: !leads }
                };
                if is_alignment(text) {
                    // Execution can run through the padding, so its first instruction can need a row.
                    if instructions.peek().is_some_and(|one| one.address == address) {
                        return Ok(place());
                    }
                    while instructions.next_if(|one| one.is_padding).is_some() {}
                }
                let len = data_len(self.arch, text);
                if is_directive(text) && len.is_none() {
                    if makes_bytes(text) {
                        return Err(Omission::InsideLine);
                    }
                    continue;
                }
                let first = instructions.next().ok_or(Omission::InsideLine)?;
                if len.is_none() && !agrees(self.arch, text, &first.mnemonic) {
                    return Err(Omission::InsideLine);
                }
                if first.address == address {
                    return Ok(place());
                }
                if let Some(len) = len {
                    let end = first.address.offset(len);
                    while instructions.next_if(|one| one.address < end).is_some() {}
                    if instructions.peek().is_some_and(|one| one.address != end) {
                        return Err(Omission::InsideLine);
                    }
                }
            }
        }
        Err(Omission::InsideLine)
    }

    /// Returns the place after a function. `address` is the address of the function's last instruction.
    ///
    /// The place is the end of the instruction's line. If the line changes to another section, it is the place after
    /// the instruction's statement.
    pub fn end(&self, address: Address, function: &Range<Address>) -> Result<Place, Omission> {
        let place = self.place(address)?;
        let piece = self.piece(address)?;
        // Another function must not begin on this line. A function that begins with data on a later line is in this
        // piece too.
        let rest = function.end.0..self.code[piece].addresses.end.max(function.end.0);
        let rest = self.first_instructions(&rest).unwrap_or_default();
        let other = rest.iter().find(|one| !one.is_padding).map(|other| self.place(other.address));
        if other.is_some_and(|other| !other.is_ok_and(|other| other.line > place.line)) {
            return Err(Omission::InsideLine);
        }
        let statements = &self.lines[place.line].statements;
        let own = statements.partition_point(|statement| statement.end <= place.at);
        let after = statements.get(own + 1..).unwrap_or_default();
        match after.first() {
            Some(next) if after.iter().any(|one| is_section(&self.text[one.clone()])) => {
                Ok(Place { at: next.start, line: place.line, is_inside: true })
            }
            _ => self.after(place.line),
        }
    }

    /// Returns the place after a line, and after a comment that begins on that line.
    pub fn after(&self, line: usize) -> Result<Place, Omission> {
        for line in line + 1..self.lines.len() {
            let own = &self.lines[line];
            if self.is_continued(line) {
                return Err(Omission::InsideLine);
            }
            match own.statements.first() {
                _ if !own.starts_in_comment => {
                    return Ok(Place { at: own.range.start, line, is_inside: false });
                }
                Some(first) => return Ok(Place { at: first.start, line, is_inside: true }),
                None => {}
            }
        }
        Ok(Place { at: self.text.len(), line: self.lines.len(), is_inside: false })
    }

    /// Returns the address of an instruction that shows that the lines of a function do not fit its code.
    ///
    /// No statement may have the name of a different instruction. Of the statements that call no macro, at least half must
    /// have the name of their instruction. Macros of included files have names that no instruction has.
    pub fn other_text(&self, function: &Range<Address>) -> Option<Address> {
        let first = self.code.partition_point(|line| line.addresses.end <= function.start.0);
        let (mut same, mut all, mut other) = (0, 0, None);
        let has_capitals = |word: &[u8]| word.iter().any(u8::is_ascii_uppercase);
        let are_lowercase = !self.names.is_empty() && !self.names.iter().any(|name| has_capitals(name));
        for piece in &self.code[first..] {
            if piece.addresses.start >= function.end.0 {
                break;
            }
            let address = Address(piece.addresses.start);
            match self.compare(piece) {
                None => {}
                Some(Compared::Same(_)) => (same, all) = (same + 1, all + 1),
                Some(Compared::Other(word)) if are_lowercase && has_capitals(word) => {}
                Some(Compared::Other(word)) if !self.names.contains(word) => {
                    (all, other) = (all + 1, other.or(Some(address)));
                }
                Some(Compared::Other(_) | Compared::NoStatement) => return Some(address),
            }
        }
        other.filter(|_| same * 2 < all)
    }

    /// Compares the first statement of a piece's line with the piece's first instruction.
    ///
    /// Returns `None` if they cannot be compared: the line is of another source, or it has a macro or data.
    fn compare(&self, piece: &Line) -> Option<Compared<'s>> {
        if !self.is_own[piece.file] {
            return None;
        }
        let line = usize::try_from(piece.line).ok().and_then(|line| line.checked_sub(1));
        let Some(line) = line.and_then(|line| self.lines.get(line)) else {
            return Some(Compared::NoStatement);
        };
        let mut statements = line.statements.iter().map(|statement| &self.text[statement.clone()]);
        let Some(statement) = statements.find(|one| !is_section(one) && !is_of_symbols(one)) else {
            return Some(Compared::NoStatement);
        };
        let word = word(statement);
        if is_directive(statement) || is_macro(statement) || self.macros.contains(called_macro(statement)) {
            return None;
        }
        let instructions = self.first_instructions(&piece.addresses)?;
        let first = instructions.first()?;
        // A prefix on its own line is not an instruction.
        let is_named = first.mnemonic.starts_with(|byte: char| byte.is_ascii_alphabetic());
        let is_same = agrees(self.arch, statement, &first.mnemonic);
        is_named.then_some(if is_same { Compared::Same(word) } else { Compared::Other(word) })
    }

    /// Returns the addresses and names of the instructions in the first [`MAX_BYTES`] bytes of a piece.
    fn first_instructions(&self, range: &Range<u64>) -> Option<Vec<Named>> {
        self.instructions(&(range.start..range.end.min(range.start + MAX_BYTES)))
    }

    /// Returns the addresses and names of the instructions in a range of code.
    pub fn instructions(&self, range: &Range<u64>) -> Option<Vec<Named>> {
        let len = range.end.checked_sub(range.start)?;
        let (bytes, relocated) = self.memory.code(Address(range.start), len)?;
        let code = Code { arch: self.arch, start: Address(range.start), bytes, relocated: &relocated };
        let all = Instructions::new(&code);
        let mut disassembler = Disassembler::new();
        let named = all.iter().map(|one| {
            let text = match disassembler.text(&code, one.offset) {
                Text::Plain(text) | Text::Branch(text, _) => text,
            };
            let mut words = text.split([' ', '\t']);
            let mnemonic = words.clone().next().unwrap_or_default().to_owned();
            let without_prefixes =
                words.find(|word| !PREFIXES.contains(word)).unwrap_or(&mnemonic).to_owned();
            let address = code.start.offset(one.offset.into());
            Named { address, mnemonic, without_prefixes, is_padding: one.is_padding }
        });
        Some(named.collect())
    }
}

/// The first statement of a line, compared with the first instruction that the object has of the line.
enum Compared<'s> {
    /// The statement's first word, if it can be the instruction's name.
    Same(&'s [u8]),
    /// The statement's first word, if it cannot be the instruction's name.
    Other(&'s [u8]),
    /// Nothing on the line makes an instruction.
    NoStatement,
}

/// An instruction with the name that the disassembler has for it.
pub struct Named {
    pub address: Address,
    /// The first word, which may be a prefix of x86.
    pub mnemonic: String,
    pub without_prefixes: String,
    pub is_padding: bool,
}

/// Prefixes of x86 that the disassembler prints as words.
const PREFIXES: [&str; 8] = ["bnd", "lock", "notrack", "rep", "repe", "repne", "xacquire", "xrelease"];
/// How many bytes of a piece of code are read.
const MAX_BYTES: u64 = 256;
/// How many lines may belong to one piece of code.
const MAX_LINES: usize = 64;
