//! The check sees a change of any byte of an edited file, except bytes of the table and bytes without a meaning.

use cfipack_roundtrip::structure::check_structure;
use cfipack_testkit::random::{Case, cases};

use super::programs::{Programs, programs, programs_of_cc};
use super::{Header, copies_of_headers, corpus, embedded, headers};

/// Returns the ranges of a file in which a change only changes the table, or has no meaning.
fn free(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let is_object = bytes[16] == 1;
    let mut free = Vec::new();
    for Header { at, name, kind, offset, size } in headers(bytes) {
        let is_table = name == ".sframe" || name == ".rela.sframe";
        if is_table {
            free.push(offset..offset + size);
        }
        if is_table {
            // The table may be longer or shorter, in the room that a linker reserved. Another check judges it.
            free.push(at + 32..at + 40);
        }
        // Zeros after the names may be counted as a part of the names.
        if name == ".shstrtab" || name == ".strtab" && is_object {
            free.push(at + 32..at + 40);
        }
        // The offset of a section without bytes has no meaning.
        if kind == 8 || size == 0 {
            free.push(at + 24..at + 32);
        }
    }
    // Unused program headers after the last.
    free.push(56..58);
    free
}

/// Changes a byte in three ways. Returns whether the check accepts a change that has a meaning.
fn is_free(old: &[u8], new: &mut [u8], at: usize, free: &[std::ops::Range<usize>]) -> bool {
    let byte = new[at];
    for change in [0x01, 0x80, 0xff] {
        new[at] = byte ^ change;
        // A byte outside of sections may be the byte that the original has there.
        let is_old = old.get(at) == Some(&new[at]);
        let result = check_structure(old, new);
        if result.is_ok() && !is_old && !free.iter().any(|range| range.contains(&at)) {
            return true;
        }
    }
    new[at] = byte;
    false
}

fn every_byte(name: &str, old: &[u8], new: &[u8]) {
    check_structure(old, new).unwrap();
    let mut free = free(new);
    free.push(copies_of_headers(old, new));
    let mut changed = new.to_vec();
    for (at, byte) in new.iter().enumerate() {
        assert!(!is_free(old, &mut changed, at, &free), "{name}: offset {at:#x}: {byte:#x}");
    }
}

#[test]
fn every_byte_of_an_unchanged_file() {
    for name in
        ["linked.so", "linkable.o", "both_frames", "at_zero", "comdat.ld.o", "explain.o", "explain_aarch64.o"]
    {
        let file = corpus(name);
        every_byte(name, &file, &file);
    }
}

#[test]
fn every_byte_of_an_edited_program() {
    every_byte_of_edited(programs("flips"));
}

#[test]
#[ignore = "needs gcc"]
fn every_byte_of_an_edited_program_of_another_linker() {
    every_byte_of_edited(programs_of_cc("flips"));
}

fn every_byte_of_edited(programs: Programs) {
    for (kind, old) in programs {
        every_byte(kind, &old, &embedded(&old));
    }
}

/// Changes some bytes of this test's own program, one at a time.
#[test]
fn some_bytes_of_a_large_program() {
    let old = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut new = embedded(&old);
    let structure = check_structure(&old, &new).unwrap();
    assert_eq!((structure.tables, structure.sections), (1, headers(&old).len()));
    let free = free(&new);
    let (seed, count) = cases("bytes of an edited program", 40);
    for seed in (0..count as u64).map(|case| seed.wrapping_add(case)) {
        let (_case, mut random) = Case::new(seed);
        let at = random.below(new.len() as u64) as usize;
        assert!(!is_free(&old, &mut new, at, &free), "offset {at:#x}: {:#x}", new[at]);
    }
}

#[test]
fn every_length() {
    let (_, old) = programs("lengths").swap_remove(0);
    let new = embedded(&old);
    for len in (0..new.len()).step_by(7) {
        assert!(check_structure(&old, &new[..len]).is_err(), "{len:#x} bytes");
        assert!(check_structure(&new[..len], &new).is_err(), "of {len:#x} bytes");
    }
}
