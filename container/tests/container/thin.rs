//! Thin archives, as `ar rcT` of binutils writes them.

use std::path::Path;

use cfipack_container::thin_members;

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container").join(name)).unwrap()
}

/// Returns the path, the offset in another archive, and the size of each member.
fn members(bytes: &[u8]) -> Vec<(String, Option<u64>, u64)> {
    let members = thin_members(bytes).unwrap().expect("a thin archive");
    let listed = members
        .iter()
        .map(|member| (String::from_utf8(member.path.to_vec()).unwrap(), member.nested, member.size));
    listed.collect()
}

/// `ar tvO` prints these names, sizes and offsets. Our offsets are 60 lower, because they start at the
/// header. The symbol index and the table of names are not members.
#[test]
fn members_are_files_and_members_of_archives() {
    let expected = ["linkable.o", "sub/a_name_longer_than_sixteen_bytes.o", "linkable.o"];
    assert_eq!(members(&corpus("thin.a")), expected.map(|path| (path.to_owned(), None, 2112)));
    let expected = [(0x12a, 2112), (0x9a6, 950), (0xd98, 1904), (0x1544, 2112)];
    let expected = expected.map(|(at, size)| ("members.a".to_owned(), Some(at - 60), size));
    assert_eq!(members(&corpus("thin_nested.a")), expected);
}

#[test]
fn other_files_are_none() {
    for name in ["members.a", "linked.so"] {
        assert_eq!(thin_members(&corpus(name)).unwrap(), None, "{name}");
    }
    assert_eq!(thin_members(b"!<thin").unwrap(), None);
    // The header of this entry is cut off.
    assert!(thin_members(&corpus("thin_nested.a")[..0x100]).is_err());
}
