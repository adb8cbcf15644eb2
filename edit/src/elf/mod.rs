//! Puts `.sframe` tables into linked ELF files and objects, replaces them and removes them.

pub(crate) mod embed;
pub(crate) mod object_file;
pub(crate) mod replace;
pub(crate) mod strip;

use cfipack_container::File;
use cfipack_container::raw::elf::Headers;

use crate::embed_error::EmbedError;

/// Returns the headers of an ELF file. Refuses other files, which have no place for a table.
fn headers_of<'f, 'a>(file: &'f File<'a>) -> Result<&'f Headers<'a>, EmbedError> {
    file.as_elf().map(|elf| elf.headers()).ok_or(EmbedError::NotElf)
}
