//! Damaged files: every edit has a result or an error, never a panic.

use cfipack_container::{File, Placement};
use cfipack_container::{members, thin_members};
use cfipack_edit::{
    EmbedError, StartRelocation, embed_in_object, resize_thin_members, rewrite_members, without_sframe,
};
use cfipack_roundtrip::structure::check_structure;
use cfipack_testkit::damage;

/// Edits the file in every way there is.
fn edit(name: &str, bytes: &[u8]) {
    let placement = if name.ends_with(".a") { Placement::Zero } else { Placement::Apart };
    rewrite(bytes);
    let Ok(members) = members(bytes) else { return };
    for member in members.flatten() {
        let Ok(file) = File::parse_with(member.bytes, placement) else { continue };
        let start = StartRelocation { offset: 28, section: 1, addend: 0 };
        let embedded = embed_in_object(&file, &[3; 40], &[start]).map(|rewrite| rewrite.to_vec(member.bytes));
        if let Ok(new) = embedded {
            let again = File::parse(&new).expect("an object still");
            let again = embed_in_object(&again, &[3; 40], &[start]).expect("a table is replaced");
            assert!(again.is_unchanged(&new), "a second time changes the object");
            // A damaged section may refer to the new one, which did not exist.
            let _ = File::parse(&new).map(|file| without_sframe(&file).map(|_| ()));
        }
        let _ = without_sframe(&file).map(|rewrite| rewrite.map(|rewrite| rewrite.to_vec(member.bytes)));
    }
    let _ = check_structure(bytes, bytes);
}

/// Changes every member of an archive, in two ways.
fn rewrite(bytes: &[u8]) {
    let longer = rewrite_members(bytes, |member| {
        let mut rewrite = cfipack_edit::Rewrite::unchanged(member.bytes.len());
        rewrite.bytes("test", &b"abc"[..]);
        Ok::<_, EmbedError>(Some(rewrite))
    });
    if let Ok(longer) = longer.map(|rewrite| rewrite.to_vec(bytes)) {
        let (old, new) = (members(bytes), members(&longer));
        if let (Ok(old), Ok(new)) = (old, new) {
            assert_eq!(old.flatten().count(), new.flatten().count());
        }
    }
    let size = thin_members(bytes).ok().flatten().into_iter().flatten().map(|member| member.size).sum();
    let _ = resize_thin_members(bytes, |_| Ok::<u64, EmbedError>(size)).map(|rewrite| rewrite.to_vec(bytes));
}

#[test]
fn every_byte_damaged_and_every_length_cut() {
    damage::every_byte_and_length(edit);
}

#[test]
fn random_damage() {
    damage::random_bytes("edits of damaged files", edit);
}
