//! Splits a source into lines and statements.

use std::ops::Range;

use cfipack_format::{Arch, Family};

/// A line of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// The bytes in the text, without the line feed.
    pub range: Range<usize>,
    /// Where each statement is in the text, without its labels. A statement that is only a label is not listed.
    pub statements: Vec<Range<usize>>,
    /// Where each label is in the text, with its colon.
    pub labels: Vec<Range<usize>>,
    /// True if the line starts inside a comment of an earlier line.
    pub starts_in_comment: bool,
}

/// Splits an ELF assembler source into its lines and their statements.
///
/// Macros are not expanded, and no condition is evaluated. Comments of the assembler and of the C preprocessor are
/// skipped, because the preprocessor reads `.S` files first.
pub fn source_lines(arch: Arch, text: &[u8]) -> Vec<SourceLine> {
    let mut splitter = Splitter::new(arch);
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let starts_in_comment = splitter.in_comment;
        let (mut at, mut statements, mut labels) = (0, Vec::new(), Vec::new());
        while let Some(piece) = splitter.next(line, &mut at) {
            let mut first = piece.start;
            while let Some(after) = after_label(&line[first..piece.end]) {
                labels.push(start + first..start + first + after);
                first = skip_blank(&line[..piece.end], first + after);
            }
            if first < piece.end {
                statements.push(start + first..start + piece.end);
            }
        }
        lines.push(SourceLine { range: start..start + line.len(), statements, labels, starts_in_comment });
        start += line.len() + 1;
    }
    lines
}

/// Splits lines into statements, and remembers whether the next line starts in a comment.
#[derive(Clone, Debug)]
struct Splitter {
    /// True if `#` starts a comment anywhere. At the start of a line, `#` always starts a comment.
    hash_comments: bool,
    /// True if a single slash at the start of a line starts a comment.
    slash_lines: bool,
    in_comment: bool,
}

impl Splitter {
    fn new(arch: Arch) -> Self {
        let (hash_comments, slash_lines) = match arch.family() {
            Family::X86 => (true, true),
            Family::Aarch64 => (false, false),
            Family::S390x | Family::Riscv => (true, false),
        };
        Self { hash_comments, slash_lines, in_comment: false }
    }

    /// Returns the next statement of a line from `at` on, or `None` at the end of the line. Moves `at` past the
    /// statement.
    fn next(&mut self, line: &[u8], at: &mut usize) -> Option<Range<usize>> {
        let is_first = *at == 0;
        let start = self.skip(line, *at)?;
        if is_first
            && line[..start].iter().all(|&byte| is_space(byte))
            && self.is_comment_line(&line[start..])
        {
            *at = line.len();
            return None;
        }
        let mut index = start;
        // The last run of comments in the statement, with only space between them.
        let mut comment = 0..0;
        let (end, after) = loop {
            let Some(&byte) = line.get(index) else { break (line.len(), line.len()) };
            let next = line.get(index + 1);
            match byte {
                b';' => break (index, index + 1),
                b'#' if self.hash_comments => break (index, line.len()),
                b'/' if next == Some(&b'/') => break (index, line.len()),
                b'/' if next == Some(&b'*') => {
                    let Some(length) = find(&line[index + 2..], b"*/") else {
                        self.in_comment = true;
                        break (index, line.len());
                    };
                    let is_next = comment.end > 0 && line[comment.end..index].iter().all(|&b| is_space(b));
                    let first = if is_next { comment.start } else { index };
                    index += 2 + length + 2;
                    comment = first..index;
                }
                b'"' => match string_end(line, index) {
                    Some(after) => index = after,
                    None => break (line.len(), line.len()),
                },
                // A character: 'x, '\n or 'x'.
                b'\'' if next == Some(&b'\\') => index += 3,
                b'\'' => index += 2,
                _ => index += 1,
            }
        };
        *at = after;
        let mut end = trimmed(line, start, end);
        if comment.end > 0 && end == comment.end {
            end = trimmed(line, start, comment.start);
        }
        Some(start.min(end)..end)
    }

    /// Returns whether the text at the start of a line is a comment up to the end of the line.
    fn is_comment_line(&self, text: &[u8]) -> bool {
        match text {
            [b'#', ..] => true,
            [b'/', b'*', ..] => false,
            [b'/', ..] => self.slash_lines,
            _ => false,
        }
    }

    /// Returns the first byte from `at` on that is neither space, nor a comment, nor a separator.
    fn skip(&mut self, line: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.in_comment {
                at += find(&line[at..], b"*/")? + 2;
                self.in_comment = false;
            }
            match *line.get(at)? {
                b';' => at += 1,
                byte if is_space(byte) => at += 1,
                b'/' if line.get(at + 1) == Some(&b'*') => {
                    self.in_comment = true;
                    at += 2;
                }
                _ => return Some(at),
            }
        }
    }
}

/// Returns the end of a piece of a line without trailing space.
fn trimmed(line: &[u8], start: usize, mut end: usize) -> usize {
    while end > start && is_space(line[end - 1]) {
        end -= 1;
    }
    end
}

/// Returns the end of a string that starts at `at`.
fn string_end(line: &[u8], at: usize) -> Option<usize> {
    let mut index = at + 1;
    loop {
        match *line.get(index)? {
            b'"' => return Some(index + 1),
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0c)
}

/// Returns the first place from `at` on that is neither space nor in a comment.
fn skip_blank(text: &[u8], mut at: usize) -> usize {
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

/// Returns the place after a label at the start of a statement. A macro of the preprocessor may make the name, as in
/// `SYMBOL(f):`.
fn after_label(statement: &[u8]) -> Option<usize> {
    let name_end =
        |from: usize| from + statement[from..].iter().take_while(|&&byte| is_part_of_name(byte)).count();
    let name = match (statement.first(), name_end(0)) {
        (Some(b'"'), _) => string_end(statement, 0)?,
        (_, name) if name > 0 && statement.get(name) == Some(&b'(') => {
            let end = name_end(name + 1);
            if statement.get(end) == Some(&b')') { end + 1 } else { return None }
        }
        (_, name) => name,
    };
    let space = statement[name..].iter().take_while(|&&byte| is_space(byte)).count();
    let colon = name + space;
    (name > 0 && statement.get(colon) == Some(&b':')).then_some(colon + 1)
}

/// Returns the name in a label, without quotes, colon, and a macro around it.
pub fn name_of_label(label: &[u8]) -> &[u8] {
    let name = label.trim_ascii_end().strip_suffix(b":").unwrap_or(label).trim_ascii();
    let inner = name.strip_suffix(b")").and_then(|name| name.split(|byte| *byte == b'(').next_back());
    let name = inner.unwrap_or(name);
    name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name)
}

fn is_part_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'@' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the statements of each line.
    fn statements(arch: Arch, text: &str) -> Vec<Vec<&str>> {
        let lines = source_lines(arch, text.as_bytes());
        lines
            .into_iter()
            .map(|line| line.statements.into_iter().map(|range| &text[range]).collect())
            .collect()
    }

    #[test]
    fn lines_have_statements_without_labels_and_comments() {
        let text =
            "f:\tpush %rbx; call g # h\n/* two\nlines */ ret\n/ret\n  # 1 \"f.S\"\nf: 1: \"a b\" : # ;\n";
        let expected = [&["push %rbx", "call g"][..], &[], &["ret"], &[], &[], &[], &[]];
        assert_eq!(statements(Arch::Amd64, text), expected);
        let lines = source_lines(Arch::Amd64, text.as_bytes());
        let in_comment: Vec<_> = lines.iter().map(|line| line.starts_in_comment).collect();
        assert_eq!(in_comment, [false, false, true, false, false, false, false]);
        assert_eq!((lines[2].range.clone(), &text[lines[2].range.clone()]), (32..44, "lines */ ret"));
    }

    /// On AArch64, `#` starts an immediate operand. On other architectures it starts a comment. `//` is always a
    /// comment.
    #[test]
    fn comments_are_those_of_the_architecture() {
        assert_eq!(statements(Arch::Aarch64, "add x0, x0, #1 // b"), [["add x0, x0, #1"]]);
        assert_eq!(statements(Arch::S390x, "la %r1,1 # b"), [["la %r1,1"]]);
        assert_eq!(statements(Arch::Amd64, "ret // as in /*.S\nret"), [["ret"], ["ret"]]);
    }

    /// A separator in a string or in a character constant does not end a statement. A comment inside a statement
    /// belongs to it.
    #[test]
    fn strings_characters_and_inner_comments_are_of_statements() {
        let text = ".ascii \"a;#\\\"/*\"; nop\nmov $';, %al; cmp $'\\;, %al\nmov /* a */ %al, %bl /* b */ /* c */; \"open ;";
        let expected = [
            &[".ascii \"a;#\\\"/*\"", "nop"][..],
            &["mov $';, %al", "cmp $'\\;, %al"],
            &["mov /* a */ %al, %bl", "\"open ;"],
        ];
        assert_eq!(statements(Arch::Amd64, text), expected);
    }
}
