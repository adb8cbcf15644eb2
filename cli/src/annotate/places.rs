//! The place in a source of each instruction of its object.

use std::collections::BTreeMap;
use std::ops::Range;

use cfipack_assembler::text::SourceLine;
use cfipack_code::{Code, Disassembler, Instructions, Text};
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::{Line, Lines};

use super::Omission;
use crate::against_code::memory::FileMemory;

/// A place of directives in a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The byte before which they stand.
    pub at: usize,
    /// The line, from 0.
    pub line: usize,
    /// True if statements stand before them on the line.
    pub is_inside: bool,
}

/// A source, its lines, and what its object has of each.
pub struct Source<'s> {
    arch: Arch,
    text: &'s [u8],
    lines: &'s [SourceLine],
    memory: &'s FileMemory<'s>,
    /// Code of this source and of others, ascending; neighbours of one line are one.
    code: Vec<Line>,
    /// The files of the line table that are this source.
    is_own: Vec<bool>,
    /// The number of pieces of `code` of each line of this source.
    pieces: BTreeMap<u64, u32>,
}

impl<'s> Source<'s> {
    /// Joins a text and the line table of its object; `is_own` tells which of the table's files the text is.
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
        Self { arch, text, lines, memory, code, is_own, pieces }
    }

    /// The piece of code that an address is in.
    fn piece(&self, address: Address) -> Result<usize, Omission> {
        let index = self.code.partition_point(|line| line.addresses.start <= address.0).checked_sub(1);
        let index = index.filter(|index| address.0 < self.code[*index].addresses.end);
        let index = index.ok_or(Omission::NoLine)?;
        let line = &self.code[index];
        if !self.is_own[line.file] {
            return Err(Omission::OtherFile);
        }
        if self.pieces.get(&line.line) != Some(&1) {
            return Err(Omission::RepeatedLine);
        }
        Ok(index)
    }

    /// The line of a piece of code, from 0.
    fn line(&self, piece: usize) -> Result<usize, Omission> {
        let number = usize::try_from(self.code[piece].line).ok().and_then(|line| line.checked_sub(1));
        number.filter(|line| *line < self.lines.len()).ok_or(Omission::OtherText)
    }

    /// The place before the instruction at an address.
    ///
    /// # Errors
    /// There is none, because the instruction has no line of its own.
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
            return Ok(Place { at: first.start, line, is_inside: true });
        }
        let is_continued = line.checked_sub(1).is_some_and(|before| {
            let before = &self.text[self.lines[before].range.clone()];
            before.trim_ascii_end().ends_with(b"\\")
        });
        if is_continued {
            return Err(Omission::InsideLine);
        }
        Ok(Place { at: own.range.start, line, is_inside: false })
    }

    /// The place of an instruction that is not the first of its piece: each statement on the line, and after it up to the next
    /// line that has a piece, must make one instruction, or be data of as many bytes as its instructions have.
    fn place_inside(&self, piece: usize, line: usize, address: Address) -> Result<Place, Omission> {
        let range = &self.code[piece].addresses;
        let mut instructions = self.instructions(range).ok_or(Omission::InsideLine)?.into_iter().peekable();
        let next = self.pieces.range(self.code[piece].line + 1..).next().map(|next| next.0 - 1);
        let end = next.and_then(|next| usize::try_from(next).ok()).unwrap_or(self.lines.len());
        let after = self.lines.get(line..end.min(line + MAX_LINES)).unwrap_or_default();
        for (number, own) in after.iter().enumerate() {
            for statement in &own.statements {
                let text = &self.text[statement.clone()];
                if is_alignment(text) {
                    while instructions.next_if(|one| one.is_padding).is_some() {}
                }
                let len = data_len(self.arch, text);
                if is_directive(text) && len.is_none() {
                    continue;
                }
                let first = instructions.next().ok_or(Omission::InsideLine)?;
                if len.is_none() && !agrees(text, &first.mnemonic) {
                    return Err(Omission::InsideLine);
                }
                if first.address == address {
                    let leads = number != 0
                        && !own.starts_in_comment
                        && own.statements.first().is_some_and(|one| one.start == statement.start);
                    let at = if leads { own.range.start } else { statement.start };
                    return Ok(Place { at, line: line + number, is_inside: !leads });
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

    /// The end of the line that has the instruction at an address, which is the last of a function.
    pub fn end(&self, address: Address, function: &Range<Address>) -> Result<Place, Omission> {
        let place = self.place(address)?;
        let piece = self.piece(address)?;
        // Whether another function begins on the line. One that begins with data is in this piece too, on a later line.
        let rest = function.end.0..self.code[piece].addresses.end.max(function.end.0);
        let rest = self.instructions(&rest).unwrap_or_default();
        let other = rest.iter().find(|one| !one.is_padding).map(|other| self.place(other.address));
        if other.is_some_and(|other| !other.is_ok_and(|other| other.line > place.line)) {
            return Err(Omission::InsideLine);
        }
        let at = (self.lines[place.line].range.end + 1).min(self.text.len());
        Ok(Place { at, line: place.line + 1, is_inside: false })
    }

    /// Returns whether lines that have one statement have an instruction with its name in the object.
    pub fn is_of_text(&self, function: &Range<Address>) -> bool {
        let first = self.code.partition_point(|line| line.addresses.end <= function.start.0);
        let (mut same, mut all) = (0, 0);
        for piece in &self.code[first..] {
            if piece.addresses.start >= function.end.0 {
                break;
            }
            let line = usize::try_from(piece.line).ok().and_then(|line| line.checked_sub(1));
            let Some(line) = line.filter(|_| self.is_own[piece.file]) else { continue };
            let Some(source) = self.lines.get(line) else { return false };
            let Some(instructions) = self.instructions(&piece.addresses) else { continue };
            if let ([statement], [Named { mnemonic, .. }, ..]) = (&source.statements[..], &instructions[..]) {
                all += 1;
                same += u32::from(agrees(&self.text[statement.clone()], mnemonic));
            }
        }
        same * 2 >= all
    }

    /// The addresses and names of the instructions of a piece; none if it is long.
    fn instructions(&self, range: &Range<u64>) -> Option<Vec<Named>> {
        let len = (range.end - range.start).min(MAX_BYTES);
        let (bytes, relocated) = self.memory.code(Address(range.start), len)?;
        let code = Code { arch: self.arch, start: Address(range.start), bytes, relocated: &relocated };
        let all = Instructions::new(&code);
        let mut disassembler = Disassembler::new();
        let named = all.as_slice().iter().map(|one| {
            let text = match disassembler.text(&code, one.offset) {
                Text::Plain(text) | Text::Branch(text, _) => text,
            };
            let mnemonic = text.split([' ', '\t']).next().unwrap_or_default().to_owned();
            let address = code.start.offset(one.offset.into());
            Named { address, mnemonic, is_padding: one.is_padding }
        });
        Some(named.collect())
    }
}

/// An instruction with the name that the disassembler has for it.
struct Named {
    address: Address,
    mnemonic: String,
    is_padding: bool,
}

/// Bytes of a piece of code that are looked at, and lines that may belong to one.
const MAX_BYTES: u64 = 256;
const MAX_LINES: usize = 64;

fn is_directive(statement: &[u8]) -> bool {
    statement.starts_with(b".")
}

/// The first word of a statement.
fn word(statement: &[u8]) -> &[u8] {
    statement.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default()
}

fn is_alignment(statement: &[u8]) -> bool {
    matches!(word(statement), b".align" | b".balign" | b".p2align")
}

/// The bytes that a directive makes by which people write instructions.
fn data_len(arch: Arch, statement: &[u8]) -> Option<i64> {
    let width = match word(statement) {
        b".byte" => 1,
        b".2byte" | b".short" | b".value" => 2,
        b".4byte" | b".long" | b".inst" => 4,
        b".word" => match arch {
            Arch::Amd64 | Arch::I386 | Arch::S390x => 2,
            Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::Riscv64 => 4,
        },
        _ => return None,
    };
    Some(statement.split(|byte| *byte == b',').map(|_| width).sum())
}

/// Returns whether a statement can be an instruction that a disassembler calls by this name: their first letters are those,
/// or both jump on a condition, which has several names (`jnz`, `jne`).
fn agrees(statement: &[u8], mnemonic: &str) -> bool {
    let is_conditional = |name: &[u8]| {
        name.first().is_some_and(|first| first.eq_ignore_ascii_case(&b'j'))
            && !name.get(1).is_some_and(|second| second.eq_ignore_ascii_case(&b'm'))
    };
    let letters = mnemonic.len().min(3);
    let is_same = |own: &[u8]| own.eq_ignore_ascii_case(&mnemonic.as_bytes()[..letters]);
    letters > 0
        && (statement.get(..letters).is_some_and(is_same)
            || is_conditional(statement) && is_conditional(mnemonic.as_bytes()))
}
