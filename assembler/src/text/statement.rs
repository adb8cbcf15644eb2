//! Lines as statements: comments, separators and labels.

use cfipack_format::{Arch, Family};

use super::{Format, Problem};

/// The characters that start comments and separate statements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syntax {
    /// Starts a comment anywhere.
    hash_comments: bool,
    slash_comments: bool,
    /// Separates statements, or starts a comment.
    semicolon_separates: bool,
    percent_separates: bool,
    /// Starts a comment at the start of a line.
    slash_lines: bool,
}

impl Syntax {
    pub(super) fn new(arch: Arch, format: Format) -> Self {
        let (is_aarch64, slash_lines) = match arch.family() {
            Family::X86 => (false, true),
            Family::Aarch64 => (true, false),
            Family::S390x | Family::Riscv => (false, false),
        };
        let is_apple_arm = is_aarch64 && format == Format::MachO;
        Self {
            hash_comments: !is_aarch64,
            slash_comments: is_aarch64 || format == Format::MachO,
            semicolon_separates: !is_apple_arm,
            percent_separates: is_apple_arm,
            slash_lines,
        }
    }

    /// This syntax, and comments after two slashes, which the C preprocessor removes from the sources that it reads.
    pub(super) fn with_preprocessor(self) -> Self {
        Self { slash_comments: true, ..self }
    }
}

/// Splits lines into statements; knows whether a line starts in a comment.
#[derive(Clone, Debug)]
pub(super) struct Splitter {
    syntax: Syntax,
    in_comment: bool,
}

/// A statement's place in its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) problem: Option<&'static Problem>,
}

impl Splitter {
    pub(super) fn new(syntax: Syntax) -> Self {
        Self { syntax, in_comment: false }
    }

    /// Returns whether the last line ended in a comment.
    pub(super) fn is_in_comment(&self) -> bool {
        self.in_comment
    }

    /// The next statement of a line from `at` on, which becomes the place after it. None at the line's end.
    pub(super) fn next(&mut self, line: &[u8], at: &mut usize) -> Option<Piece> {
        let is_first = *at == 0;
        let mut start = self.skip(line, *at)?;
        if is_first && line[..start].iter().all(|&byte| is_space(byte)) {
            match (line[start], line.get(start + 1)) {
                (b'#', _) => {
                    *at = line.len();
                    return None;
                }
                (b'/', next) if self.syntax.slash_lines && next != Some(&b'*') => {
                    *at = line.len();
                    return None;
                }
                _ => {}
            }
        }
        let mut problem = None;
        let mut index = start;
        let mut end = None;
        // The last comments in the statement with nothing between them.
        let mut comment = (0, 0);
        while let Some(&byte) = line.get(index) {
            if !SPECIAL[usize::from(byte)] {
                index += 1;
                continue;
            }
            match byte {
                b';' if self.syntax.semicolon_separates => {
                    end = Some((index, index + 1));
                }
                b';' => end = Some((index, line.len())),
                b'%' if self.syntax.percent_separates && line.get(index + 1) == Some(&b'%') => {
                    end = Some((index, index + 2));
                }
                b'#' if self.syntax.hash_comments => end = Some((index, line.len())),
                b'/' if self.syntax.slash_comments && line.get(index + 1) == Some(&b'/') => {
                    end = Some((index, line.len()));
                }
                b'/' if line.get(index + 1) == Some(&b'*') => match find(&line[index + 2..], b"*/") {
                    Some(length) => {
                        let is_next = comment.1 > 0 && line[comment.1..index].iter().all(|&b| is_space(b));
                        let first = if is_next { comment.0 } else { index };
                        index += 2 + length + 2;
                        comment = (first, index);
                        continue;
                    }
                    None => {
                        self.in_comment = true;
                        end = Some((index, line.len()));
                    }
                },
                b'"' => match string_end(line, index) {
                    Some(after) => {
                        index = after;
                        continue;
                    }
                    None => {
                        problem = Some(&Problem::OpenString);
                        end = Some((line.len(), line.len()));
                    }
                },
                b'\'' => {
                    // A character: 'x, '\n or 'x'.
                    index += if line.get(index + 1) == Some(&b'\\') { 3 } else { 2 };
                    continue;
                }
                _ => {
                    index += 1;
                    continue;
                }
            }
            break;
        }
        let (mut end, after) = end.unwrap_or((line.len(), line.len()));
        *at = after;
        let trimmed = |mut end| {
            while end > start && is_space(line[end - 1]) {
                end -= 1;
            }
            end
        };
        end = trimmed(end);
        if comment.1 > 0 && end == comment.1 {
            end = trimmed(comment.0);
        }
        start = start.min(end);
        Some(Piece { start, end, problem })
    }

    /// The first byte from `at` on that is neither space, nor a comment, nor a separator.
    fn skip(&mut self, line: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.in_comment {
                at += find(&line[at..], b"*/")? + 2;
                self.in_comment = false;
            }
            let byte = *line.get(at)?;
            match byte {
                _ if is_space(byte) => at += 1,
                b';' if self.syntax.semicolon_separates => at += 1,
                b'/' if line.get(at + 1) == Some(&b'*') => {
                    self.in_comment = true;
                    at += 2;
                }
                _ => return Some(at),
            }
        }
    }
}

/// The bytes at which more than the next byte must be looked at.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = b";%#/\"'";
    let mut index = 0;
    while index < bytes.len() {
        table[bytes[index] as usize] = true;
        index += 1;
    }
    table
};

/// The end of a string that starts at `at`.
pub(super) fn string_end(line: &[u8], at: usize) -> Option<usize> {
    let mut index = at + 1;
    loop {
        match *line.get(index)? {
            b'"' => return Some(index + 1),
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
}

pub(super) fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0c)
}

/// The first place from `at` on that is neither space nor in a comment.
pub(super) fn skip_blank(text: &[u8], mut at: usize) -> usize {
    loop {
        match text.get(at) {
            Some(&byte) if is_space(byte) => at += 1,
            Some(b'/') if text.get(at + 1) == Some(&b'*') => {
                let length = find(&text[at + 2..], b"*/");
                at = length.map_or(text.len(), |length| at + 2 + length + 2);
            }
            _ => return at,
        }
    }
}

/// The start of a statement after its labels.
pub(super) fn after_labels(statement: &[u8]) -> usize {
    let mut at = 0;
    while let Some((_, after)) = label(&statement[at..]) {
        at = skip_blank(statement, at + after);
    }
    at
}

/// Returns whether a byte can be in a name.
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'@' | 0x80..)
}

/// A label at the start of a statement: its name, without quotes, and where the rest starts.
pub(super) fn label(statement: &[u8]) -> Option<(&[u8], usize)> {
    let (name, after) = name(statement)?;
    let space = statement[after..].iter().take_while(|&&byte| is_space(byte)).count();
    let colon = after + space;
    (statement.get(colon) == Some(&b':')).then_some((name, colon + 1))
}

/// A name at the start of a text, without quotes, and where it ends.
pub(super) fn name(text: &[u8]) -> Option<(&[u8], usize)> {
    if text.first() == Some(&b'"') {
        let end = string_end(text, 0)?;
        return Some((&text[1..end - 1], end));
    }
    let length = text.iter().take_while(|&&byte| is_name(byte)).count();
    (length > 0).then_some((&text[..length], length))
}
