//! Thin archives with members that got other sizes. The result is as `ar` writes it.

use std::path::Path;

use cfipack_edit::resize_thin_members;

#[test]
fn sizes_of_changed_members_alone_change() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/thin.a");
    let old = std::fs::read(file).unwrap();
    let same = resize_thin_members(&old, |member| Ok::<_, cfipack_container::Error>(member.size)).unwrap();
    assert!(same.is_unchanged(&old));
    let resized = resize_thin_members(&old, |member| {
        Ok::<_, cfipack_container::Error>(if member.path == b"linkable.o" { 123_456 } else { member.size })
    });
    // The fields have ten characters (`ar`'s format). The second member is the other file.
    let text: String = old.iter().map(|&byte| char::from(byte)).collect();
    let parts: Vec<_> = text.split("2112      `\n").collect();
    let [first, other, last, ""] = parts[..] else { panic!("{parts:?}") };
    let expected = format!("{first}123456    `\n{other}2112      `\n{last}123456    `\n");
    let expected: Vec<u8> = expected.chars().map(|character| character as u8).collect();
    assert_eq!(resized.unwrap().to_vec(&old), expected);
    // A number of eleven digits does not fit.
    assert!(resize_thin_members(&old, |_| Ok::<_, cfipack_container::Error>(10_000_000_000)).is_err());
    // An archive that contains its members is unchanged.
    let whole =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/members.a")).unwrap();
    let result = resize_thin_members(&whole, |_| Ok::<_, cfipack_container::Error>(1)).unwrap();
    assert!(result.is_unchanged(&whole));
}
