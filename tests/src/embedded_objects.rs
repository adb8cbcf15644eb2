//! Tables put into relocatable objects and members of archives, as the library's users do it.

use cfipack_container::{File, Placement};
use cfipack_edit::{EmbedError, Rewrite, StartRelocation, embed_in_object, rewrite_members, without_sframe};
use cfipack_encoder::sframe::Options;

use crate::convert::{build, cfi_of};

/// The object with a table of its CFI; none if it has no functions. No functions share rows, for GNU `ld` reserves as
/// many bytes as its inputs have, and then writes each function's rows: those of tables with shared rows overwrite the
/// next section.
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

/// The object with a table of its CFI, which it has.
pub fn embedded(object: &[u8], options: Options) -> Vec<u8> {
    let rewrite = embed(object, options).expect("a table can be embedded").expect("functions");
    rewrite.to_vec(object)
}

/// The object without its table, which it has.
pub fn stripped(object: &[u8]) -> Vec<u8> {
    let file = File::parse(object).expect("an object");
    without_sframe(&file).expect("a table can be removed").expect("a table").to_vec(object)
}

/// The archive with tables in all members that have functions; how many these are.
pub fn embedded_archive(archive: &[u8], options: Options) -> (Vec<u8>, usize) {
    let mut count = 0;
    let rewrite = rewrite_members(archive, |member| {
        let rewrite = if is_object(member.bytes) { embed(member.bytes, options)? } else { None };
        count += usize::from(rewrite.is_some());
        Ok::<_, EmbedError>(rewrite)
    });
    (rewrite.expect("tables can be embedded").to_vec(archive), count)
}

/// The archive without tables in its members.
pub fn stripped_archive(archive: &[u8]) -> Vec<u8> {
    let rewrite = rewrite_members(archive, |member| {
        if is_object(member.bytes) { without_sframe(&File::parse(member.bytes)?) } else { Ok(None) }
    });
    rewrite.expect("tables can be removed").to_vec(archive)
}

/// Returns whether a member is a relocatable ELF object: `ET_REL` follows the identification.
fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && matches!(bytes.get(16..18), Some([1, 0] | [0, 1]))
}
