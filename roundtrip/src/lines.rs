//! Source lines of code, from `.debug_line`. gimli reads them.

use std::ops::Range;

use cfipack_format::{Arch, Endian};
use gimli::{AttributeValue, DebugLine, DebugLineOffset, EndianSlice, IncompleteLineProgram, RunTimeEndian};

/// The sections of a file, relocated.
#[derive(Clone, Copy, Debug)]
pub struct LineSections<'a> {
    /// `.debug_line`.
    pub line: &'a [u8],
    /// `.debug_line_str`, or empty.
    pub line_str: &'a [u8],
    /// `.debug_str`, or empty.
    pub str: &'a [u8],
}

/// The code of a line: from an entry of the line table up to the next entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The addresses.
    pub addresses: Range<u64>,
    /// The file, as an index into [`Lines::files`].
    pub file: usize,
    /// The number of the line from 1, or 0 for code without a line.
    pub line: u64,
}

/// The name of a source file. Each part is empty if the table does not have it, or if it cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SourceFile<'a> {
    /// The name. It has no directory, unless the table has the directory in the name.
    pub name: &'a [u8],
    /// The directory of the file. It can be relative to the directory of the compilation.
    pub directory: &'a [u8],
    /// The directory of the compilation, in a line table of DWARF 5.
    pub compilation: &'a [u8],
}

impl SourceFile<'_> {
    /// Returns the path. It is relative if the table does not have the directory of the compilation.
    pub fn path(&self) -> Vec<u8> {
        let mut path: Vec<u8> = Vec::new();
        for part in [self.compilation, self.directory, self.name] {
            if part.first() == Some(&b'/') {
                path.clear();
            }
            if !path.is_empty() && !part.is_empty() && path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        path
    }
}

/// The line tables of a file.
#[derive(Clone, Debug, Default)]
pub struct Lines<'a> {
    /// The source files.
    pub files: Vec<SourceFile<'a>>,
    /// The lines, in ascending order of address.
    pub lines: Vec<Line>,
}

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

impl<'a> Lines<'a> {
    /// Reads every line table of `.debug_line`.
    ///
    /// # Errors
    /// Returns gimli's error if a line table cannot be read.
    pub fn read(sections: LineSections<'a>, arch: Arch) -> Result<Self, gimli::Error> {
        let endian = match arch.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let table = DebugLine::new(sections.line, endian);
        let mut lines = Self::default();
        let mut offset = 0;
        while offset < sections.line.len() {
            let program = table.program(DebugLineOffset(offset), arch.pointer_size(), None, None)?;
            let header = program.header();
            let length =
                header.unit_length().saturating_add(usize::from(header.format().initial_length_size()));
            offset = offset.saturating_add(length.max(1));
            lines.add(program, sections)?;
        }
        lines.lines.sort_by_key(|line| (line.addresses.start, line.addresses.end));
        Ok(lines)
    }

    fn add(
        &mut self,
        program: IncompleteLineProgram<Bytes<'a>>,
        sections: LineSections<'a>,
    ) -> Result<(), gimli::Error> {
        let first = self.files.len();
        // Version 5 numbers files from 0, others from 1.
        let base = u64::from(program.header().version() < 5);
        let header = program.header();
        let directory = |number| header.directory(number).map_or(&[][..], |name| text(&name, sections));
        let compilation = directory(0);
        self.files.extend(header.file_names().iter().map(|file| SourceFile {
            name: text(&file.path_name(), sections),
            directory: if file.directory_index() == 0 { &[] } else { directory(file.directory_index()) },
            compilation,
        }));
        // Files with other numbers have no name.
        let unnamed = self.files.len();
        self.files.push(SourceFile::default());
        let mut rows = program.rows();
        let mut last: Option<Line> = None;
        while let Some((_, row)) = rows.next_row()? {
            if let Some(mut line) = last.take()
                && line.addresses.start < row.address()
            {
                line.addresses.end = row.address();
                self.lines.push(line);
            }
            if !row.end_sequence() {
                let index = row.file_index().checked_sub(base).and_then(|index| usize::try_from(index).ok());
                let file = index.and_then(|index| first.checked_add(index)).filter(|file| *file < unnamed);
                last = Some(Line {
                    addresses: row.address()..row.address(),
                    file: file.unwrap_or(unnamed),
                    line: row.line().map_or(0, u64::from),
                });
            }
        }
        Ok(())
    }
}

/// The greatest length of a name that is kept, in bytes. Many entries may share the same long name.
const LONGEST_NAME: usize = 4096;

/// Returns the name of a file or a directory, or an empty name if it cannot be read.
fn text<'a>(name: &AttributeValue<Bytes<'a>>, sections: LineSections<'a>) -> &'a [u8] {
    let bytes = match name {
        AttributeValue::String(name) => name.slice(),
        AttributeValue::DebugLineStrRef(offset) => sections.line_str.get(offset.0..).unwrap_or_default(),
        AttributeValue::DebugStrRef(offset) => sections.str.get(offset.0..).unwrap_or_default(),
        _ => &[],
    };
    let bytes = &bytes[..bytes.len().min(LONGEST_NAME)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
