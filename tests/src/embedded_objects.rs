//! Embeds tables in objects and in members of archives, as users of the library do it.

use cfipack_container::{File, Placement};
use cfipack_edit::{EmbedError, Rewrite, StartRelocation, embed_in_object, rewrite_members, without_sframe};
use cfipack_encoder::sframe::Options;

use crate::convert::{build, cfi_of};

/// Embeds the table of an object's CFI. Returns `None` if it has no functions. Functions share no rows: GNU `ld`
/// reserves as many bytes as its inputs have, but writes each function's rows, so with shared rows it would overwrite
/// the next section.
pub fn embed(object: &[u8], options: Options) -> Result<Option<Rewrite<'_>>, EmbedError> {
    let file = File::parse_with(object, Placement::Apart)?;
    let sections = file.call_frame_sections()?;
    let (section, _, _) = build(cfi_of(&sections), file.arch(), options.with_share(false));
    let starts: Vec<_> = section
        .start_fields()
        .map(|start| {
            let place = file.locate(start.address()).expect("functions lie in sections");
            StartRelocation { offset: start.field.0 as u32, section: place.section, addend: place.offset }
        })
        .collect();
    if starts.is_empty() {
        return Ok(None);
    }
    let mut table = vec![0; section.relocatable_len()];
    section.write_relocatable(&mut table).expect("an object's table can be written");
    embed_in_object(&file, &table, &starts).map(Some)
}

/// Embeds the table of an object's CFI, which must have functions.
pub fn embedded(object: &[u8], options: Options) -> Vec<u8> {
    let rewrite = embed(object, options).expect("a table can be embedded").expect("functions");
    rewrite.to_vec(object)
}

/// Removes the object's table, which it must have.
pub fn stripped(object: &[u8]) -> Vec<u8> {
    let file = File::parse(object).expect("an object");
    without_sframe(&file).expect("a table can be removed").expect("a table").to_vec(object)
}

/// Embeds tables in all members that have functions. Returns the archive and the number of these members.
pub fn embedded_archive(archive: &[u8], options: Options) -> (Vec<u8>, usize) {
    let mut count = 0;
    let rewrite = rewrite_members(archive, |member| {
        let rewrite = if is_object(member.bytes) { embed(member.bytes, options)? } else { None };
        count += usize::from(rewrite.is_some());
        Ok::<_, EmbedError>(rewrite)
    });
    (rewrite.expect("tables can be embedded").to_vec(archive), count)
}

/// Removes the tables of an archive's members.
pub fn stripped_archive(archive: &[u8]) -> Vec<u8> {
    let rewrite = rewrite_members(archive, |member| {
        if is_object(member.bytes) { without_sframe(&File::parse(member.bytes)?) } else { Ok(None) }
    });
    rewrite.expect("tables can be removed").to_vec(archive)
}

/// Returns whether a member is a relocatable ELF object. `ET_REL` comes after the identification.
fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && matches!(bytes.get(16..18), Some([1, 0] | [0, 1]))
}
