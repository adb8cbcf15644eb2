//! Recognizes files by their first bytes.

use std::path::Path;

use cfipack_container::has_known_magic;

/// Returns the first bytes of a file that a tool wrote.
fn head(name: &str) -> Vec<u8> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    let mut bytes = std::fs::read(corpora.join(name)).unwrap();
    bytes.truncate(8);
    bytes
}

#[test]
fn files_of_tools_are_known() {
    let written = ["container/linkable.o", "container/linked.so", "container/members.a"];
    let mach_o = ["compact-unwind/mc/x01_empty.o", "compact-unwind/mc/i04_ebp_all.o"];
    for name in written.into_iter().chain(mach_o) {
        assert!(has_known_magic(&head(name)), "{name}");
    }
}

/// No tool here writes these formats. Their magic comes from documents: `ar` of binutils, and `fat(5)` and
/// `Mach-O(5)` of macOS.
#[test]
fn other_kinds_are_known() {
    let thin = b"!<thin>\n";
    let fat = [[0xca, 0xfe, 0xba, 0xbe], [0xca, 0xfe, 0xba, 0xbf]];
    let big_endian = [[0xfe, 0xed, 0xfa, 0xce], [0xfe, 0xed, 0xfa, 0xcf]];
    assert!(has_known_magic(thin));
    for magic in fat.into_iter().chain(big_endian) {
        assert!(has_known_magic(&magic), "{magic:02x?}");
    }
}

#[test]
fn anything_else_is_not() {
    let heads: [&[u8]; 6] = [b"", b"\x7fEL", b"!<arch>", b"\xe2\xde\x03\x00", b"\x01\0\0\0", b"#!/bin/sh"];
    for head in heads {
        assert!(!has_known_magic(head), "{head:02x?}");
    }
}
