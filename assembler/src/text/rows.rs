//! The rows of a gas listing.

use super::Problem;
use super::diagnostic::Span;
use super::operands::Fault;
use super::statement::find;

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
    /// The start of the text in the listing.
    pub(super) at: usize,
    /// True if it was made by a macro.
    pub(super) is_expansion: bool,
}

/// Reads rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'t> {
    text: &'t [u8],
    at: usize,
    /// A row that has been read, to find the end of the one before.
    ahead: Option<Row<'t>>,
}

enum LineOf<'t> {
    Row(Row<'t>),
    /// Bytes of the row before.
    Continuation(u64),
    Header,
    Symbols,
    /// A warning of the assembler about the row before, which may go on after it.
    Message,
    Nothing,
    /// A problem: it is none of these.
    Problem(Problem),
}

/// Returns whether a text is a listing, by its first line that is not empty.
pub(super) fn is_listing(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    lines.find(|line| !line.trim_ascii().is_empty()).is_some_and(|line| {
        matches!(classify(line, 0), LineOf::Row(_) | LineOf::Header | LineOf::Problem(Problem::NotAssembled))
            || is_interleaved(line)
    })
}

impl<'t> Rows<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0, ahead: None }
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Option<Result<Row<'t>, Fault>> {
        if let Some(row) = self.ahead.take() {
            return Some(Ok(self.continued(row)));
        }
        loop {
            let (line, at) = self.line()?;
            match classify(line, at) {
                LineOf::Row(row) => return Some(Ok(self.continued(row))),
                LineOf::Header => self.skip_titles(),
                LineOf::Symbols => {
                    self.at = self.text.len();
                    return None;
                }
                LineOf::Continuation(_) | LineOf::Message | LineOf::Nothing => {}
                LineOf::Problem(problem) => {
                    return Some(Err((Span { start: at as u32, length: line.len() as u32 }, problem)));
                }
            }
        }
    }

    /// Returns whether the next row was made by a macro.
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

    /// A row with the rows that continue it, across page headers.
    fn continued(&mut self, mut row: Row<'t>) -> Row<'t> {
        let Some((_, count)) = &mut row.bytes else { return row };
        loop {
            let before = self.at;
            let Some((line, at)) = self.line() else { return row };
            match classify(line, at) {
                LineOf::Continuation(bytes) => {
                    row.rows += 1;
                    *count += bytes;
                }
                LineOf::Header => self.skip_titles(),
                LineOf::Message => {}
                LineOf::Row(next) => {
                    self.ahead = Some(next);
                    return row;
                }
                _ => {
                    self.at = before;
                    return row;
                }
            }
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
    let columns = &line[after..tab];
    // Most rows without bytes have one blank and then blanks.
    let bytes = match columns.get(1) {
        None | Some(b' ') if columns.iter().all(|&byte| byte == b' ') => None,
        _ => match self::columns(columns) {
            Ok(bytes) => bytes,
            Err(problem) => return LineOf::Problem(problem),
        },
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
    let text = text.trim_ascii_start();
    let length = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let (offset, rest) = text.split_at(length);
    if offset.is_empty() {
        return Ok(None);
    }
    if offset.starts_with(b"?") {
        return Err(Problem::NotAssembled);
    }
    if offset.len() < 4 || offset.len() > 15 {
        return Err(Problem::NotARow);
    }
    let mut value = 0;
    for &byte in offset {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return Err(Problem::NotARow),
        };
        value = value << 4 | u64::from(digit);
    }
    let count = hexadecimal(rest).ok_or(Problem::NotARow)?;
    Ok(Some((value, count)))
}

/// Bytes of words of hexadecimal digits.
fn hexadecimal(text: &[u8]) -> Option<u64> {
    let mut digits = 0;
    for &byte in text {
        match byte {
            b'0'..=b'9' | b'A'..=b'F' => digits += 1,
            b' ' => {}
            _ => return None,
        }
    }
    Some(digits / 2)
}

fn continuation(text: &[u8]) -> LineOf<'_> {
    match hexadecimal(text) {
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
        _ if line.starts_with(b"****  Warning: ") => LineOf::Message,
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
