//! Removes the tables of a file.

use cfipack_container::{File, Kind};

use super::{embed, headers_of, object_file};
use crate::embed_error::EmbedError;
use crate::rewrite::Rewrite;

/// Returns the ELF file without its `.sframe`, the section header, the segment and the name. Returns `None` if it has
/// no table.
///
/// Sections that moved to make room for the table go back, and program headers that gave it their place are restored.
/// So the result is the file that the table was embedded in, byte for byte. There are two exceptions, in which the
/// result may differ but behaves the same. Either the original had patchelf's filler after the program headers, or
/// another program has written the file since. Then sections without room in their old place stay where they are. If a
/// linker wrote the table, the sections after it get new indexes, also in symbols.
///
/// # Errors
/// Returns an [`EmbedError`] if the file cannot be changed safely.
pub fn without_sframe<'a>(file: &File<'a>) -> Result<Option<Rewrite<'a>>, EmbedError> {
    let headers = headers_of(file)?;
    match headers.kind {
        Kind::Linked => embed::without_sframe(headers),
        Kind::Relocatable => object_file::without_sframe(headers),
    }
}
