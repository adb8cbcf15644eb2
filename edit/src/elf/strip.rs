//! A file without its tables.

use cfipack_container::{File, Kind};

use super::headers::headers_of;
use super::{embed, object_file};
use crate::embed_error::EmbedError;
use crate::rewrite::Rewrite;

/// The ELF file without its `.sframe`, its header, its segment and its name; None if it has none.
///
/// Sections that moved to make room for it go back, and program headers that gave it their slots are restored, so that
/// the result is the file that the table was embedded in, byte for byte. It may differ, and behaves alike, if
/// that file had bytes of no section (patchelf leaves some), or if another program has written the file since:
/// sections that find no room in their old place stay where they are. The sections after a table that a linker
/// wrote get new indices, also in symbols.
///
/// # Errors
/// If the file is none of those that can be changed safely: [`EmbedError`] lists them.
pub fn without_sframe<'a>(file: &File<'a>) -> Result<Option<Rewrite<'a>>, EmbedError> {
    let headers = headers_of(file)?;
    match headers.kind {
        Kind::Linked => embed::without_sframe(headers),
        Kind::Relocatable => object_file::without_sframe(headers),
    }
}
