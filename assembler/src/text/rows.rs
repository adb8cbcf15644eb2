//! The rows of a gas listing.

use super::diagnostic::Span;
use super::operands::Fault;
use super::statement::find;
use super::Problem;

/// A row with the rows that continue it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'t> {
    /// The line of its file.
    pub(super) line: u64,
    /// The offset of the bytes that it lists, and how many they are.
    pub(super) bytes: Option<(u64, u64)>,
    /// Rows that the bytes take.
    pub(super) rows: u32,
    /// The source.
    pub(super) source: &'t [u8],
    /// Where that starts in the listing.
    pub(super) at: usize,
    /// Whether it was made by a macro.
    pub(super) is_expansion: bool,
}

/// Reads rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'t> {
    text: &'t [u8],
    at: usize,
}

enum LineOf<'t> {
    Row(Row<'t>),
    /// Bytes of the row before.
    Continuation(u64),
    Header,
    Symbols,
    Nothing,
    /// What it means that it is none of these.
    Problem(Problem),
}

/// Whether a text is a listing, by its first line that is not empty.
pub(super) fn is_listing(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    lines.find(|line| !line.trim_ascii().is_empty()).is_some_and(|line| {
        matches!(classify(line, 0), LineOf::Row(_) | LineOf::Header | LineOf::Problem(Problem::NotAssembled))
            || is_interleaved(line)
    })
}

impl<'t> Rows<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Option<Result<Row<'t>, Fault>> {
        loop {
            let (line, at) = self.line()?;
            match classify(line, at) {
                LineOf::Row(mut row) => {
                    if row.bytes.is_some() {
                        self.continue_row(&mut row);
                    }
                    return Some(Ok(row));
                }
                LineOf::Header => self.skip_titles(),
                LineOf::Symbols => {
                    self.at = self.text.len();
                    return None;
                }
                LineOf::Continuation(_) | LineOf::Nothing => {}
                LineOf::Problem(problem) => {
                    return Some(Err((Span { start: at as u32, length: line.len() as u32 }, problem)));
                }
            }
        }
    }

    /// Whether the next row was made by a macro.
    pub(super) fn is_expansion_next(&self) -> bool {
        let mut ahead = *self;
        matches!(ahead.next(), Some(Ok(row)) if row.is_expansion)
    }

    /// The next line without its end, and where it starts.
    fn line(&mut self) -> Option<(&'t [u8], usize)> {
        let start = self.at;
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.at = start + length + 1;
        let line = &rest[..length];
        Some((line.strip_suffix(b"\r").unwrap_or(line), start))
    }

    fn skip_titles(&mut self) {
        self.line();
        self.line();
    }

    /// Takes the rows that continue this one, across page headers.
    fn continue_row(&mut self, row: &mut Row<'t>) {
        loop {
            let mut ahead = *self;
            let Some((line, at)) = ahead.line() else { return };
            match classify(line, at) {
                LineOf::Continuation(bytes) => {
                    row.rows += 1;
                    if let Some((_, count)) = &mut row.bytes {
                        *count += bytes;
                    }
                }
                LineOf::Header => ahead.skip_titles(),
                _ => return,
            }
            *self = ahead;
        }
    }
}

fn classify(line: &[u8], at: usize) -> LineOf<'_> {
    let blanks = line.iter().take_while(|&&byte| byte == b' ').count();
    let digits = line[blanks..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let after = blanks + digits;
    if digits == 0 || digits > 18 || !matches!(line.get(after), Some(b' ' | b'\t')) {
        return other(line);
    }
    let number = line[blanks..after].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    let Some(tab) = line[after..].iter().position(|&byte| byte == b'\t').map(|tab| after + tab) else {
        return continuation(&line[after..]);
    };
    let bytes = match columns(&line[after..tab]) {
        Ok(bytes) => bytes,
        Err(problem) => return LineOf::Problem(problem),
    };
    let source = &line[tab + 1..];
    let is_expansion = source.first() == Some(&b'>');
    let marks = source.iter().take_while(|&&byte| byte == b'>').count();
    LineOf::Row(Row {
        line: number,
        bytes,
        rows: 1,
        source: &source[marks..],
        at: at + tab + 1 + marks,
        is_expansion,
    })
}

/// Offset and bytes of a row, if it lists any.
fn columns(text: &[u8]) -> Result<Option<(u64, u64)>, Problem> {
    let mut words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let Some(offset) = words.next() else { return Ok(None) };
    if offset.starts_with(b"?") {
        return Err(Problem::NotAssembled);
    }
    let is_offset = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    if offset.len() < 4 || offset.len() > 16 || !offset.iter().all(is_offset) {
        return Err(Problem::NotARow);
    }
    let value = offset.iter().fold(0, |value, &byte| {
        value << 4 | u64::from(if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 })
    });
    let count = hexadecimal(words).ok_or(Problem::NotARow)?;
    // No object is as large, and sums stay below 2^63.
    if value >> 62 != 0 {
        return Err(Problem::NotARow);
    }
    Ok(Some((value, count)))
}

/// Bytes of words of hexadecimal digits.
fn hexadecimal<'w>(words: impl Iterator<Item = &'w [u8]>) -> Option<u64> {
    let mut digits = 0;
    for word in words {
        if !word.iter().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        digits += word.len() as u64;
    }
    Some(digits / 2)
}

fn continuation(text: &[u8]) -> LineOf<'_> {
    let words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    match hexadecimal(words) {
        Some(0) => LineOf::Nothing,
        Some(bytes) => LineOf::Continuation(bytes),
        None => LineOf::Problem(Problem::NotARow),
    }
}

/// A line that has no number at its front.
fn other(line: &[u8]) -> LineOf<'_> {
    let line = line.strip_prefix(b"\x0c").unwrap_or(line).trim_ascii();
    match line {
        b"" => LineOf::Nothing,
        b"DEFINED SYMBOLS" | b"UNDEFINED SYMBOLS" | b"NO DEFINED SYMBOLS" | b"NO UNDEFINED SYMBOLS" => {
            LineOf::Symbols
        }
        _ if line.starts_with(b"GAS LISTING ") => LineOf::Header,
        _ if is_interleaved(line) => LineOf::Nothing,
        _ => LineOf::Problem(Problem::NotARow),
    }
}

/// `12:a.c      **** text`: source of another language (`h`).
fn is_interleaved(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && line.get(digits) == Some(&b':') && find(line, b"****").is_some()
}
