//! Finds the source lines of code, in `.debug_line`.

use std::borrow::Cow;

use cfipack_container::File;
use cfipack_format::Address;
use cfipack_roundtrip::{LineSections, Lines};

use crate::Error;

/// A line of a source file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// The path. It is relative to the directory of the compilation if the line table does not have that directory.
    /// Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The number of the line, from 1.
    pub line: u64,
}

/// Returns the source line of each PC, or `None` for a PC without one. `file` has the line table: it is the file with
/// the code, or the file that its debug information was split into.
///
/// # Errors
/// The line table cannot be read. A file without a line table is no error.
pub fn source_lines(
    file: &File<'_>,
    pcs: impl ExactSizeIterator<Item = Address>,
) -> Result<Vec<Option<SourceLine>>, Error> {
    let count = pcs.len();
    let sections = match line_sections(file) {
        Ok(sections) if count != 0 => sections,
        Ok(_) | Err(Error::NoLines) => return Ok(vec![None; count]),
        Err(error) => return Err(error),
    };
    let table = read(&sections, file)?;
    Ok(pcs.map(|pc| line_at(&table, pc)).collect())
}

fn line_at(table: &Lines<'_>, pc: Address) -> Option<SourceLine> {
    let after = table.lines.partition_point(|line| line.addresses.start <= pc.0);
    let found = &table.lines[after.checked_sub(1)?];
    let path = table.files[found.file].path();
    let is_known = found.addresses.contains(&pc.0) && found.line != 0 && !path.is_empty();
    is_known.then(|| SourceLine { path: String::from_utf8_lossy(&path).into_owned(), line: found.line })
}

/// Reads the line tables of a file from its [`line_sections`].
pub(crate) fn read<'s>(sections: &'s [Cow<'_, [u8]>; 3], file: &File<'_>) -> Result<Lines<'s>, Error> {
    let [line, line_str, str] = sections.each_ref().map(|section| &**section);
    Lines::read(LineSections { line, line_str, str }, file.arch()).map_err(Error::Lines)
}

/// Returns `.debug_line`, `.debug_line_str` and `.debug_str`, relocated.
pub(crate) fn line_sections<'a>(file: &File<'a>) -> Result<[Cow<'a, [u8]>; 3], Error> {
    let bytes = |name| file.debug_section(name).map(|section| section.map(|section| section.bytes));
    let line = bytes(".debug_line")?.ok_or(Error::NoLines)?;
    Ok([line, bytes(".debug_line_str")?.unwrap_or_default(), bytes(".debug_str")?.unwrap_or_default()])
}
