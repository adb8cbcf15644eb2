//! Diagnostics: the faults of a text, printed as compilers do.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use cfipack_format::widen::ToUsize;

use crate::Misuse;

/// A place in a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Span {
    /// Bytes from the text's start.
    pub(super) start: u32,
    /// Bytes of what is meant.
    pub(super) length: u32,
}

/// Something wrong at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The line, counted from 1. Of a listing it is the listing's own.
    pub line: u32,
    /// The column, counted from 1 in bytes, a tab as far as the next multiple of 8.
    pub column: u32,
    /// Bytes of what is meant.
    pub length: u32,
    /// The problem.
    pub problem: Problem,
    span: Span,
}

/// All that is wrong with a text, in the order of its lines.
#[derive(Clone, Debug)]
pub struct Diagnostics<'t> {
    text: &'t [u8],
    list: Vec<Diagnostic>,
}

/// Bytes of a line that are quoted before and after a place.
const QUOTED: usize = 500;

/// A problem of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A directive outside a function.
    NotInFunction,
    /// A `.cfi_startproc` in a function.
    NotClosed,
    /// A `.cfi_endproc` outside a function.
    NotOpen,
    /// A function that does not end.
    OpenAtEnd,
    /// A directive that has no meaning where it stands.
    Misuse(Misuse),
    /// A `.cfi_*` that is not known.
    UnknownDirective(String),
    /// A `.cfi_*` that assemblers have and this library does not.
    UnsupportedDirective(String),
    /// An operand is missing.
    MissingOperand,
    /// Something follows the last operand.
    Trailing,
    /// An operand of `.cfi_escape` is no byte: its last byte is taken. A warning.
    Truncated(i64),
    /// An operand is no register.
    Register,
    /// An operand is no number that is known here.
    Number,
    /// An operand is no symbol.
    Symbol,
    /// An operand of `.cfi_startproc` or `.cfi_sections` that is not known.
    Keyword,
    /// An expression with too many parentheses.
    TooDeep,
    /// A string that does not end.
    OpenString,
    /// A comment that does not end.
    OpenComment,
    /// A `.popsection` or `.previous` with nothing to go back to.
    NoSection,
    /// A source has an instruction, whose size only an assembler knows.
    Instruction(String),
    /// A source has a statement that starts with no name.
    NoStatement,
    /// A source has a directive whose size is not known here.
    Directive(String),
    /// A listing's line is cut.
    CutLine,
    /// The source that was given beside the listing has another line there.
    OtherSource,
    /// The bytes after which a directive stands are cut.
    CutBytes,
    /// CFI between two statements that make code on one line.
    BetweenInstructions,
    /// A section changes on a line that makes code.
    SectionOnLine,
    /// A macro with CFI whose expansion is not listed.
    HiddenMacro(String),
    /// `.list` or `.nolist`: lines may be hidden.
    ListControl,
    /// A condition around CFI that cannot be evaluated.
    Condition,
    /// The assembler did not assemble this.
    NotAssembled,
    /// The offsets of a section descend.
    OffsetBackwards {
        /// The offset after the line before, in bytes.
        expected: u64,
        /// The offset of the line.
        found: u64,
    },
    /// Bytes of a function are not listed.
    MissingBytes {
        /// The offset after the line before, in bytes.
        expected: u64,
        /// The offset of the line.
        found: u64,
    },
    /// A line of a listing that is none.
    NotARow,
    /// The text is longer than 4 GiB.
    TooLong,
}

impl<'t> Diagnostics<'t> {
    /// Makes the diagnostics of faults at places of a text.
    pub(super) fn new(text: &'t [u8], mut found: Vec<(Span, Problem)>) -> Self {
        found.sort_by_key(|(span, _)| span.start);
        found.dedup();
        let (mut line, mut column, mut at) = (1, 1, 0);
        let mut list = Vec::with_capacity(found.len());
        for (span, problem) in found {
            let start = span.start.to_usize().min(text.len());
            for &byte in &text[at.min(start)..start] {
                match byte {
                    b'\n' => (line, column) = (line + 1, 1),
                    b'\t' => column = (column - 1) / 8 * 8 + 9,
                    _ => column += 1,
                }
            }
            at = start;
            list.push(Diagnostic { line, column, length: span.length, problem, span });
        }
        Self { text, list }
    }

    pub(super) fn one(text: &'t [u8], problem: Problem) -> Self {
        Self::new(text, Vec::from([(Span { start: 0, length: 0 }, problem)]))
    }

    /// The diagnostics alone.
    pub(super) fn into_list(self) -> Vec<Diagnostic> {
        self.list
    }

    /// The errors.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// All of them as compilers print them: file, line, column, the line, a caret below the place.
    pub fn print(&self, file: &str) -> String {
        self.print_first(file, usize::MAX)
    }

    /// The first so many of them, and how many there are more.
    pub fn print_first(&self, file: &str, count: usize) -> String {
        use fmt::Write as _;
        let mut out = String::new();
        for diagnostic in self.list.iter().take(count) {
            // Writing into a string does not fail.
            let _ = self.write(&mut out, file, diagnostic);
        }
        if let Some(more @ 1..) = self.list.len().checked_sub(count) {
            let _ = writeln!(out, "{file}: {more} more errors");
        }
        out
    }

    fn write(&self, out: &mut String, file: &str, diagnostic: &Diagnostic) -> fmt::Result {
        use fmt::Write as _;
        let Diagnostic { line, column, length, ref problem, span } = *diagnostic;
        writeln!(out, "{file}:{line}:{column}: error: {problem}")?;
        let start = span.start.to_usize().min(self.text.len());
        let is_end = |&byte: &u8| byte == b'\n';
        // Of a long line, the part around the place.
        let (first, last) = (start.saturating_sub(QUOTED), (start + QUOTED).min(self.text.len()));
        let before = self.text[first..start].iter().rposition(is_end);
        let is_whole = before.is_some() || first == 0;
        let from = before.map_or(first, |at| first + at + 1);
        let to = self.text[start..last].iter().position(is_end).map_or(last, |at| start + at);
        let quoted = expanded(&self.text[from..to]);
        writeln!(out, "{line:5} | {quoted}")?;
        let shown = length.to_usize().min(to - start).max(1);
        let blanks = if is_whole { column.to_usize() - 1 } else { expanded(&self.text[from..start]).len() };
        writeln!(out, "{:5} | {:2$}^{3:~<4$}", "", "", blanks, "", shown - 1)
    }
}

impl fmt::Display for Diagnostics<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print("-"))
    }
}

impl core::error::Error for Diagnostics<'_> {}

/// Text with spaces for tabs, and with no byte that a terminal obeys.
fn expanded(line: &[u8]) -> String {
    let mut out = String::new();
    for &byte in line {
        match byte {
            b'\t' => {
                out.push(' ');
                while !out.len().is_multiple_of(8) {
                    out.push(' ');
                }
            }
            0x20..=0x7e => out.push(char::from(byte)),
            _ => out.push('?'),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NotInFunction => "CFI instruction used without previous .cfi_startproc",
            Self::NotClosed => "previous CFI entry not closed (missing .cfi_endproc)",
            Self::NotOpen => ".cfi_endproc without corresponding .cfi_startproc",
            Self::OpenAtEnd => "open CFI at the end of file; missing .cfi_endproc directive",
            Self::Misuse(Misuse::RestoreWithoutRemember) => "CFI state restore without previous remember",
            Self::Misuse(misuse) => return misuse.fmt(f),
            Self::UnknownDirective(name) => return write!(f, "unknown CFI directive {name}"),
            Self::UnsupportedDirective(name) => return write!(f, "{name} is not supported"),
            Self::MissingOperand => "missing operand",
            Self::Trailing => "junk after the last operand",
            Self::Truncated(value) => {
                return write!(f, "value {value:#x} truncated to {:#x}", *value as u8);
            }
            Self::Register => "bad register expression",
            Self::Number => "bad expression: a number, or symbols with known numbers, is expected",
            Self::Symbol => "a symbol is expected",
            Self::Keyword => "unknown operand",
            Self::TooDeep => "the expression is nested too deeply",
            Self::OpenString => "unterminated string",
            Self::OpenComment => "unterminated comment",
            Self::NoSection => "no section to go back to",
            Self::Instruction(name) => {
                return write!(
                    f,
                    "the size of the instruction `{name}` is the assembler's to find: give its listing \
                     (as -aclmn=FILE --listing-rhs-width=200)"
                );
            }
            Self::NoStatement => "neither a directive nor an instruction: is this assembler text?",
            Self::Directive(name) => {
                return write!(
                    f,
                    "the size of `{name}` is the assembler's to find: give its listing \
                     (as -aclmn=FILE --listing-rhs-width=200)"
                );
            }
            Self::CutLine => {
                "the listing cuts this line: list with --listing-rhs-width=200, or give the assembled file with --source"
            }
            Self::OtherSource => "--source has another text on this line",
            Self::CutBytes => {
                "the listing cuts the bytes before this directive: list with --listing-cont-lines=100000"
            }
            Self::BetweenInstructions => {
                "CFI between two statements of one line has no offset in a listing: write one statement on a line"
            }
            Self::SectionOnLine => "the section changes on a line with code: write one statement on a line",
            Self::HiddenMacro(name) => {
                return write!(f, "the CFI in the expansion of `{name}` is not listed: list with -aclmn (m)");
            }
            Self::ListControl => {
                "lines may be hidden: list without .list and .nolist (as -aclmn, sources without them)"
            }
            Self::Condition => {
                "whether this CFI is assembled is not in the listing: its condition is no constant \
                 (list with -aclmn, c, and give conditions constants)"
            }
            Self::NotAssembled => "the assembler failed on this line: the listing has no offsets",
            Self::OffsetBackwards { expected, found } => {
                return write!(
                    f,
                    "offset {found:#x} follows {expected:#x} in this section: list with -aclmn \
                     --listing-rhs-width=200, or give the assembled file with --source"
                );
            }
            Self::MissingBytes { expected, found } => {
                return write!(
                    f,
                    "the bytes from offset {expected:#x} to {found:#x} are not listed: list with -aclmn \
                     --listing-cont-lines=100000"
                );
            }
            Self::NotARow => "no line of a listing: list with -aclmn (without h and s)",
            Self::TooLong => "the text is longer than 4 GiB",
        };
        f.write_str(text)
    }
}
