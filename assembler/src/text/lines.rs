//! The lines of a source, and where their statements are.

use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::Arch;

use super::Format;
use super::statement::{Splitter, Syntax, after_labels};

/// A line of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SourceLine {
    /// The bytes in the text, without the line feed.
    pub range: Range<usize>,
    /// The statements' bytes in the text, after their labels; statements that are labels alone are not listed.
    pub statements: Vec<Range<usize>>,
    /// True if the line starts in a comment of an earlier one.
    pub starts_in_comment: bool,
}

/// The lines of a source with their statements. Macros are not expanded, and no condition is evaluated. Comments are those of
/// the assembler and of the C preprocessor, which reads some sources first.
///
/// ```
/// use cfipack_assembler::text::{Format, source_lines};
/// use cfipack_format::Arch;
///
/// let text = b"f:\tpush %rbx; call g # h\n/* two\nlines */ ret\n";
/// let lines = source_lines(Arch::Amd64, Format::Elf, text);
/// let statements = |line: usize| lines[line].statements.iter().map(|range| &text[range.clone()]).collect::<Vec<_>>();
/// assert_eq!(statements(0), [&b"push %rbx"[..], b"call g"]);
/// assert_eq!(statements(2), [b"ret"]);
/// assert!(lines[2].starts_in_comment);
///
/// let text = b"ret // as in /*.S\nret\n";
/// assert_eq!(source_lines(Arch::Amd64, Format::Elf, text)[1].statements.len(), 1);
/// ```
pub fn source_lines(arch: Arch, format: Format, text: &[u8]) -> Vec<SourceLine> {
    let mut splitter = Splitter::new(Syntax::new(arch, format).with_preprocessor());
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let starts_in_comment = splitter.is_in_comment();
        let (mut at, mut statements) = (0, Vec::new());
        while let Some(piece) = splitter.next(line, &mut at) {
            let first = piece.start + after_labels(&line[piece.start..piece.end]);
            if first < piece.end {
                statements.push(start + first..start + piece.end);
            }
        }
        lines.push(SourceLine { range: start..start + line.len(), statements, starts_in_comment });
        start += line.len() + 1;
    }
    lines
}
