//! Changes several bytes of an edited program.

use cfipack_roundtrip::structure::{StructureError, check_structure};
use cfipack_testkit::random::{Case, cases};

use super::programs::{Programs, programs, programs_of_cc};
use super::{copies_of_headers, corpus, embedded, header};

/// Returns the offsets in the file of the addends in `.rela.dyn` that give addresses.
fn relative_addends(bytes: &[u8]) -> Vec<usize> {
    let section = header(bytes, ".rela.dyn");
    let entries = (section.offset..section.offset + section.size).step_by(24);
    // `R_X86_64_RELATIVE`, `R_AARCH64_RELATIVE`.
    entries
        .filter(|&at| [[8, 0, 0, 0], [3, 4, 0, 0]].contains(&bytes[at + 8..at + 12].try_into().unwrap()))
        .map(|at| at + 16)
        .collect()
}

#[test]
fn a_relocation_that_needs_a_moved_section() {
    for (kind, old) in programs("relocation").into_iter().filter(|(kind, _)| *kind == "pie") {
        let new = embedded(&old);
        let moved = check_structure(&old, &new).unwrap().moved;
        let addend = relative_addends(&old)[0];
        let point_to = |bytes: &[u8], address: u64| {
            let mut bytes = bytes.to_vec();
            bytes[addend..addend + 8].copy_from_slice(&address.to_le_bytes());
            bytes
        };
        for address in [moved[0].old, moved[0].old + 3] {
            let error = check_structure(&point_to(&old, address), &point_to(&new, address)).unwrap_err();
            assert!(
                matches!(error, StructureError::Refers { address: found, .. } if found == address),
                "{kind}: {error}"
            );
        }
        // The same with an address in code, which is not moved.
        let code = header(&old, ".text").offset as u64;
        check_structure(&point_to(&old, code), &point_to(&new, code)).unwrap();
    }
}

#[test]
fn bytes_after_the_end() {
    for (kind, old) in programs("end") {
        let new = embedded(&old);
        let and = |bytes: &[u8], more: &[u8]| [bytes, more].concat();
        check_structure(&old, &and(&new, &[0; 3])).unwrap();
        check_structure(&and(&old, b"PK\x05\x06"), &and(&new, b"PK\x05\x06")).unwrap();
        let error = check_structure(&old, &and(&new, b"PK")).unwrap_err();
        let end = new.len() as u64;
        assert_eq!(error, StructureError::AddedByte { offset: end, old: 0, new: b'P' }, "{kind}");
        let error = check_structure(&and(&old, b"PK"), &new).unwrap_err();
        assert!(matches!(error, StructureError::LostByte { old: b'P', .. }), "{kind}: {error}");
    }
}

#[test]
fn a_section_that_must_not_move() {
    for (kind, old) in programs("section") {
        let mut new = embedded(&old);
        // The bytes of the section move to the end of the file, and its header leads there.
        let section = header(&new, ".eh_frame_hdr");
        let (at, bytes) = (section.at, new[section.offset..section.offset + section.size].to_vec());
        new.resize(new.len().next_multiple_of(16), 0);
        let end = new.len() as u64;
        new.extend(bytes);
        new[at + 24..at + 32].copy_from_slice(&end.to_le_bytes());
        let error = check_structure(&old, &new).unwrap_err();
        assert!(matches!(error, StructureError::Section { field: "sh_offset", .. }), "{kind}: {error}");
    }
}

#[test]
fn another_table_and_none() {
    for (_, old) in programs("another") {
        let new = embedded(&old);
        let mut longer = new.clone();
        let table = header(&new, ".sframe").offset;
        longer[table + 40] ^= 0xff;
        check_structure(&new, &longer).unwrap();
        check_structure(&new, &old).unwrap();
        longer[table] ^= 0xff;
        let error = check_structure(&new, &longer).unwrap_err();
        assert!(matches!(error, StructureError::Table { field: "magic", .. }), "{error}");
    }
}

/// The check refuses two different files of the corpus.
#[test]
fn different_files() {
    let names = [
        "linked.so",
        "linkable.o",
        "both_frames",
        "sectionless.so",
        "explain.o",
        "explain_aarch64.o",
        "members.a",
    ];
    for old in names {
        for new in names.into_iter().filter(|&new| new != old) {
            assert!(check_structure(&corpus(old), &corpus(new)).is_err(), "{old} {new}");
        }
    }
}

/// Copies bytes from one place of a program to another place.
#[test]
fn copied_bytes() {
    copies_are_found(programs("copies"));
}

#[test]
#[ignore = "needs gcc"]
fn copied_bytes_of_another_linker() {
    copies_are_found(programs_of_cc("copies"));
}

fn copies_are_found(programs: Programs) {
    let programs: Vec<_> = programs.into_iter().map(|(kind, old)| (kind, embedded(&old), old)).collect();
    let (seed, count) = cases("copied bytes of an edited program", 3000);
    for seed in (0..count as u64).map(|case| seed.wrapping_add(case)) {
        let (_case, mut random) = Case::new(seed);
        let (kind, new, old) = &programs[random.below(programs.len() as u64) as usize];
        let mut below = |limit: usize| random.below(limit as u64) as usize;
        let len = 1 + below(200);
        let (from, to) = (below(new.len() - len), below(new.len() - len));
        let mut changed = new.clone();
        changed.copy_within(from..from + len, to);
        let table = header(new, ".sframe");
        let is_table = |at: usize| (table.offset..table.offset + table.size).contains(&at);
        let is_old = |at: usize| old.get(at) == Some(&changed[at]);
        let unread = copies_of_headers(old, new);
        // If the names of sections have moved, no reader uses their old place, and zeros are as good there.
        let names = header(old, ".shstrtab");
        let start = names.offset + if unread.is_empty() { 0 } else { unread.start };
        let is_unnamed = |at: usize| changed[at] == 0 && (start..start + names.size).contains(&at);
        let is_free = |at: usize| is_table(at) || is_old(at) || unread.contains(&at) || is_unnamed(at);
        let differs = (to..to + len).any(|at| changed[at] != new[at] && !is_free(at));
        let what = format!("{kind}: {from:#x} to {to:#x}, {len:#x} bytes");
        assert!(!differs || check_structure(old, &changed).is_err(), "{what}");
    }
}
