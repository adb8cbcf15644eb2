//! The headers of the files that are edited.

use cfipack_container::File;
use cfipack_container::raw::elf::Headers;

use crate::embed_error::EmbedError;

/// Returns the headers of an ELF file. Refuses other files, which have no place for a table.
pub(super) fn headers_of<'f, 'a>(file: &'f File<'a>) -> Result<&'f Headers<'a>, EmbedError> {
    file.as_elf().map(|elf| elf.headers()).ok_or(EmbedError::NotElf)
}
