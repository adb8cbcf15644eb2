//! The check of edited files: it accepts differences that an edit explains, and no others.

mod by_hand;
mod changes;
mod fields;
mod flips;
mod order;
mod programs;
mod unusual;

use std::path::Path;

use cfipack_container::File;
use cfipack_edit::Embedding;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, SectionHeader as _};

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container").join(name)).unwrap()
}

/// Returns bytes with the magic number of a table.
fn table(len: usize) -> Vec<u8> {
    let mut bytes: Vec<_> = (0..len).map(|at| (at * 7 + 1) as u8).collect();
    bytes[..2].copy_from_slice(&[0xe2, 0xde]);
    bytes
}

/// Returns a linked file with these bytes as its table.
fn embedded(old: &[u8]) -> Vec<u8> {
    let file = File::parse(old).unwrap();
    Embedding::of(&file, 600).unwrap().rewrite(table(600)).to_vec(old)
}

/// A section header of a file: its offset in the file, and its fields.
struct Header {
    at: usize,
    name: String,
    kind: u32,
    offset: usize,
    size: usize,
}

/// Returns the section headers of a file. `object` reads them.
fn headers(bytes: &[u8]) -> Vec<Header> {
    let file = FileHeader64::<Endianness>::parse(bytes).unwrap();
    let endian = file.endian().unwrap();
    let sections = file.sections(endian, bytes).unwrap();
    let first = file.e_shoff(endian) as usize;
    let header = |(index, section): (usize, &object::elf::SectionHeader64<Endianness>)| Header {
        at: first + 64 * index,
        name: String::from_utf8_lossy(sections.section_name(endian, section).unwrap_or_default())
            .into_owned(),
        kind: section.sh_type(endian).0,
        offset: section.sh_offset(endian) as usize,
        size: section.sh_size(endian) as usize,
    };
    sections.iter().enumerate().map(header).collect()
}

/// Returns the range of the original's ELF header and program headers in an edited file, if the edited file has new
/// headers on a page before them. No reader uses the old headers.
fn copies_of_headers(old: &[u8], new: &[u8]) -> std::ops::Range<usize> {
    const PAGE: usize = 0x1000;
    let has_page = new.get(PAGE..PAGE + 16) == Some(&old[..16]);
    PAGE..PAGE + if has_page { 64 + 56 * usize::from(old[56]) } else { 0 }
}

/// Returns the header of a section by its name.
fn header(bytes: &[u8], name: &str) -> Header {
    headers(bytes).into_iter().find(|header| header.name == name).unwrap()
}
