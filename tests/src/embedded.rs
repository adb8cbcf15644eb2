//! Embeds tables in finished files.

use cfipack_cfi::Section;
use cfipack_container::File;
use cfipack_edit::{EmbedError, Embedding, Rewrite, Way};
use cfipack_encoder::sframe::Options;
use cfipack_format::{Address, Key};

use crate::convert::{build, cfi_of};

/// A file with a table.
#[derive(Clone, Debug)]
pub struct Embedded<'a> {
    /// The new file.
    pub rewrite: Rewrite<'a>,
    /// How the table got room.
    pub way: Way,
    /// The table's address.
    pub address: Address,
    /// The table.
    pub table: Vec<u8>,
}

/// Embeds the table of a file's CFI. Returns `None` if the CFI has no functions.
pub fn embed<'a>(file: &File<'a>, options: Options) -> Option<Result<Embedded<'a>, EmbedError>> {
    let sections = file.call_frame_sections().ok()?;
    let cfi: Vec<Section<'_>> = cfi_of(&sections);
    if cfi.iter().all(|section| cfipack_cfi::Functions::new(section).next().is_none()) {
        return None;
    }
    let (section, ..) = build(cfi, file.arch(), options);
    let mut table = vec![0; section.len()];
    let embedding = match Embedding::of(file, table.len()) {
        Ok(embedding) => embedding,
        Err(error) => return Some(Err(error)),
    };
    let (address, way) = (embedding.address(), embedding.way());
    section.write(&mut table, address, Key::address).ok()?;
    Some(Ok(Embedded { rewrite: embedding.rewrite(table.clone()), way, address, table }))
}
