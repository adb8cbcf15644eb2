//! Files with bytes that no header describes, as patchelf 0.19 and the linker of Zig leave them: old section headers, and
//! old contents of sections that have moved. They stay where they are.

use std::fs;
use std::path::Path;
use std::process::Command;

use cfipack_testkit::rustc;

use super::{built, messages};
use crate::archives::archive;

/// The number of leftover bytes. A multiple of the section headers' alignment.
const LEFT: usize = 64;

/// Reads a number of `SIZE` bytes, in little-endian order.
fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + SIZE].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Inserts leftover bytes before the section headers, which end the file.
fn leave_before_headers(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let headers = number::<8>(&bytes, 0x28);
    assert_eq!(headers + 64 * number::<2>(&bytes, 0x3c), bytes.len());
    bytes.splice(headers..headers, [0x4f; LEFT]);
    bytes[0x28..0x30].copy_from_slice(&((headers + LEFT) as u64).to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn leftovers_stay_and_the_old_file_comes_back() {
    let directory = built("into_leftovers");
    for name in ["program", "library.so", "object.o"] {
        let path = directory.join(name);
        leave_before_headers(&path);
        let old = fs::read(&path).unwrap();
        messages(&directory, &["--in-place", name], 0);
        let new = fs::read(&path).unwrap();
        assert!(new.windows(LEFT).any(|bytes| bytes == [0x4f; LEFT]), "{name}");
        messages(&directory, &["verify", name], 0);
        messages(&directory, &["strip", name], 0);
        assert!(fs::read(&path).unwrap() == old, "{name}: other bytes than before");
    }
    let status = Command::new(directory.join("program")).arg("word").status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// A section without bytes has an offset that no reader uses. GNU `ld -static` and Dart's linker write other offsets than
/// the end of the section before it.
#[test]
fn an_offset_without_a_meaning_refuses_no_file() {
    let directory = built("into_offsets");
    for name in ["program", "object.o"] {
        let path = directory.join(name);
        let bytes = fs::read(&path).unwrap();
        let (headers, count) = (number::<8>(&bytes, 0x28), number::<2>(&bytes, 0x3c));
        // Section 0 has the type 0, and `.bss` the type 8.
        let offsets = (0..count).map(|index| headers + 64 * index + 24);
        let offsets: Vec<_> = offsets.filter(|at| [0, 8].contains(&number::<4>(&bytes, at - 20))).collect();
        for (offset, value) in offsets.iter().flat_map(|&offset| [(offset, 3), (offset, 1 << 40_u64)]) {
            let mut bytes = bytes.clone();
            bytes[offset..offset + 8].copy_from_slice(&u64::to_le_bytes(value));
            fs::write(&path, &bytes).unwrap();
            messages(&directory, &["--in-place", name], 0);
            messages(&directory, &["verify", name], 0);
            messages(&directory, &["strip", name], 0);
            assert!(fs::read(&path).unwrap() == bytes, "{name}: other bytes than before");
        }
    }
}

/// `llvm-strip` shortens a file and leaves the offset of an empty section where it was. GNU `strip` refuses a file with an
/// empty section beyond its end.
#[test]
fn an_empty_section_stays_inside_a_shortened_file() {
    let directory = built("into_shortened");
    let path = directory.join("program");
    messages(&directory, &["--in-place", "program"], 0);
    let mut bytes = fs::read(&path).unwrap();
    let (headers, count) = (number::<8>(&bytes, 0x28), number::<2>(&bytes, 0x3c));
    let mut sections = (0..count).map(|index| headers + 64 * index);
    let empty = sections.find(|&at| number::<4>(&bytes, at + 4) == 8).expect(".bss");
    let end = bytes.len() as u64;
    bytes[empty + 4] = 1;
    bytes[empty + 24..empty + 32].copy_from_slice(&end.to_le_bytes());
    bytes[empty + 32..empty + 40].fill(0);
    fs::write(&path, &bytes).unwrap();
    messages(&directory, &["strip", "program"], 0);
    let bytes = fs::read(&path).unwrap();
    let empty = number::<8>(&bytes, 0x28) + (empty - headers);
    assert!((bytes.len() as u64) < end && number::<8>(&bytes, empty + 24) <= bytes.len());
}

/// Two members stay as they are: a function has no bytes, and in the other object section 1, the code, has the names of
/// sections. `strip` and `verify` say the same of them.
#[test]
fn members_without_code_or_names_keep_no_other_member_from_its_table() {
    let directory = built("into_members");
    rustc::assemble(&directory, ".globl f\nf: .cfi_startproc\n.cfi_endproc\n", "empty.o");
    let [empty, object] = ["empty.o", "object.o"].map(|name| fs::read(directory.join(name)).unwrap());
    let mut damaged = object.clone();
    damaged[62..64].copy_from_slice(&[1, 0]);
    let old = archive(&[("empty.o", &empty), ("object.o", &object), ("damaged.o", &damaged)]);
    fs::write(directory.join("all.a"), &old).unwrap();
    messages(&directory, &["--in-place", "all.a"], 0);
    assert!(fs::read(directory.join("all.a")).unwrap() != old);
    messages(&directory, &["verify", "all.a"], 0);
    messages(&directory, &["strip", "all.a"], 0);
    assert!(fs::read(directory.join("all.a")).unwrap() == old, "strip gives the original");
}

/// The function has no bytes, so the object gets no table, and that is no error.
#[test]
fn a_function_without_bytes_needs_no_table() {
    let directory = built("into_empty_function");
    rustc::assemble(&directory, ".globl f\nf: .cfi_startproc\n.cfi_endproc\n", "empty.o");
    let text = messages(&directory, &["--in-place", "empty.o"], 0);
    assert!(text.starts_with("empty.o: unchanged, no table, 1 of 1 function\n"), "{text}");
    assert!(text.contains("  no table: no function has code that a table can represent\n"), "{text}");
}
