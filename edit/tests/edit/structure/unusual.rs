//! Programs that linkers rarely make, built byte by byte. Embedding keeps the meaning of their headers, or refuses
//! them.

use cfipack_container::{Error, File};
use cfipack_edit::{EmbedError, Embedding, Way, without_sframe};
use cfipack_roundtrip::structure::{StructureError, check_structure};

use super::{embedded, header};

/// Types of segments.
pub(super) const LOAD: u32 = 1;
const NOTE: u32 = 4;
const TLS: u32 = 7;
const SFRAME: u32 = 0x6474_e554;
const RELRO: u32 = 0x6474_e552;

/// A program header: type and flags, then offset, address, bytes in the file and in memory.
pub(super) type Segment = ([u32; 2], [u64; 4]);

/// A section header: name, type and flags, then address, offset and size.
pub(super) type Section = (&'static str, [u32; 2], [u64; 3]);

/// `.text` in the first segment.
pub(super) const TEXT: [u32; 2] = [1, 6];

/// `.text` from the end of this many program headers to 0x210. No section can move to make room.
fn text_after(segments: u64) -> Section {
    let start = 64 + 56 * segments;
    (".text", TEXT, [0x40_0000 + start, start, 0x210 - start])
}

/// Makes an executable for x86-64 of `len` bytes, with its section headers after them.
pub(super) fn program(segments: &[Segment], sections: &[Section], len: usize) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    let mut end = len as u64;
    for &(name, kind, place) in sections.iter().chain(&[(".shstrtab", [3, 0], [0, end, 0])]) {
        headers.extend([names.len() as u32, kind[0]].map(u32::to_le_bytes).concat());
        names.extend(name.bytes().chain([0]));
        let size = if name == ".shstrtab" { names.len() as u64 } else { place[2] };
        headers
            .extend([u64::from(kind[1]), place[0], place[1], size, 0, 1, 0].map(u64::to_le_bytes).concat());
    }
    end = (end + names.len() as u64).next_multiple_of(8);
    bytes.extend([segments[0].1[1], 64, end].map(u64::to_le_bytes).concat());
    let counts = [0, 0, 64, 56, segments.len(), 64, sections.len() + 2, sections.len() + 1];
    bytes.extend(counts.map(|count| (count as u16).to_le_bytes()).concat());
    for &([kind, flags], [offset, address, file, memory]) in segments {
        bytes.extend([kind, flags].map(u32::to_le_bytes).concat());
        let align = if kind == LOAD { 0x1000 } else { 1 };
        bytes.extend([offset, address, address, file, memory, align].map(u64::to_le_bytes).concat());
    }
    assert!(bytes.len() <= len, "the program headers have room");
    bytes.resize(len, 0);
    bytes.extend(names);
    bytes.resize(end as usize, 0);
    [bytes, headers].concat()
}

/// Returns the `p_offset` of the first program header of a type.
fn offset_of(bytes: &[u8], kind: u32) -> u64 {
    let count = usize::from(bytes[56]);
    let mut headers = bytes[64..64 + 56 * count].chunks(56);
    let found = headers.find(|header| header[..4] == kind.to_le_bytes()).unwrap();
    u64::from_le_bytes(found[8..16].try_into().unwrap())
}

fn way(old: &[u8]) -> Way {
    Embedding::of(&File::parse(old).unwrap(), 600).unwrap().way()
}

/// No segment contains the headers, so no page can be added before them.
#[test]
fn headers_that_are_not_loaded() {
    let load = ([LOAD, 5], [0x1000, 0x40_0000, 0x10, 0x10]);
    let old = program(&[load], &[(".text", TEXT, [0x40_0000, 0x1000, 0x10])], 0x1010);
    let error = Embedding::of(&File::parse(&old).unwrap(), 600).unwrap_err();
    assert_eq!(error, EmbedError::NoWay { offset: 64, size: 56 });
    assert_eq!(error.to_string(), "offset 0x40: no room for more program headers than these 0x38 bytes");
}

/// The table of another tool may lie after the headers, in the segment with the highest address. If the table is
/// removed, the rest of this segment stays, with the headers.
#[test]
fn a_table_beside_headers_after_all_else_in_memory() {
    let headers = ([LOAD, 4], [0, 0x40_1000, 0x220, 0x220]);
    let text = ([LOAD, 5], [0x1000, 0x40_0000, 0x10, 0x10]);
    let table = ([SFRAME, 4], [0x200, 0x40_1200, 0x20, 0x20]);
    let sections =
        [(".text", TEXT, [0x40_0000, 0x1000, 0x10]), (".sframe", [0x6fff_fff4, 2], [0x40_1200, 0x200, 0x20])];
    let mut old = program(&[text, headers, table], &sections, 0x1010);
    old[0x200..0x204].copy_from_slice(&[0xe2, 0xde, 3, 0]);
    let back = without_sframe(&File::parse(&old).unwrap()).unwrap().unwrap().to_vec(&old);
    check_structure(&old, &back).unwrap();
    assert_eq!((header(&back, ".text").offset, usize::from(back[56])), (0x1000, 2));
    assert!(File::parse(&back).unwrap().sframe_sections().unwrap().is_empty());
}

/// A segment without bytes keeps the offset of its section.
#[test]
fn empty_segments_move_with_their_sections() {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x210, 0x210]);
    let empty = ([LOAD, 6], [0x210, 0x40_1210, 0, 0x10]);
    let tls = ([TLS, 4], [0x210, 0x40_1210, 0, 0x20]);
    let sections = [text_after(3), (".tbss", [8, 0x403], [0x40_1210, 0x210, 0x20])];
    let old = program(&[text, empty, tls], &sections, 0x210);
    assert_eq!(way(&old), Way::Prepend);
    let new = embedded(&old);
    check_structure(&old, &new).unwrap();
    assert_eq!((header(&new, ".tbss").offset, offset_of(&new, TLS)), (0x1210, 0x1210));
    let back = without_sframe(&File::parse(&new).unwrap()).unwrap().unwrap().to_vec(&new);
    assert!(back == old, "strip gives the original");
}

/// mold gives `PT_GNU_RELRO` the offset of a `.tbss`, which is 0.
#[test]
fn a_segment_that_is_loaded_from_elsewhere() {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x210, 0x210]);
    let data = ([LOAD, 6], [0x210, 0x40_1210, 0x10, 0x10]);
    let relro = ([RELRO, 4], [0, 0x40_1210, 0x10, 0x10]);
    let sections = [text_after(3), (".got", [1, 3], [0x40_1210, 0x210, 0x10])];
    let old = program(&[text, data, relro], &sections, 0x220);
    assert_eq!(way(&old), Way::Prepend);
    check_structure(&old, &embedded(&old)).unwrap();
}

/// Older versions of lld round the size of `PT_GNU_RELRO` up to a page, beyond the memory of its segment. BOLT gives
/// the header the same size in the file. This range then contains symbols and headers, which change.
#[test]
fn relro_that_counts_bytes_after_its_segment() {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x210, 0x210]);
    let data = ([LOAD, 6], [0x210, 0x40_1210, 0x10, 0x10]);
    let relro = ([RELRO, 4], [0x210, 0x40_1210, 0x100, 0x100]);
    let sections = [text_after(3), (".got", [1, 3], [0x40_1210, 0x210, 0x10])];
    let mut old = program(&[text, data, relro], &sections, 0x220);
    old[0x210..0x220].fill(7);
    assert_eq!(way(&old), Way::Prepend);
    let new = embedded(&old);
    check_structure(&old, &new).unwrap();
    assert_eq!(offset_of(&new, RELRO), 0x1210);
    let back = without_sframe(&File::parse(&new).unwrap()).unwrap().unwrap().to_vec(&new);
    assert!(back == old, "strip gives the original");
    check_structure(&new, &back).unwrap();
    // The offset of the header and each byte that it protects must stay.
    let mut elsewhere = new.clone();
    let count = usize::from(new[56]);
    let at = (64..64 + 56 * count).step_by(56).find(|&at| new[at..at + 4] == RELRO.to_le_bytes()).unwrap();
    elsewhere[at + 8..at + 16].copy_from_slice(&0x210_u64.to_le_bytes());
    let error = check_structure(&old, &elsewhere).unwrap_err();
    assert!(
        matches!(error, StructureError::Segment { field: "p_offset", old: 0x1210, new: 0x210, .. }),
        "{error}"
    );
    let mut changed = new;
    changed[0x121f] = 8;
    check_structure(&old, &changed).unwrap_err();
}

/// A reader finds a note that is not loaded only by its offset.
#[test]
fn a_segment_that_is_not_loaded() {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x210, 0x210]);
    let note = ([NOTE, 4], [0x210, 0, 0x10, 0]);
    let sections = [text_after(2), (".note", [7, 0], [0, 0x210, 0x10])];
    let mut old = program(&[text, note], &sections, 0x220);
    old[0x210..0x220].copy_from_slice(b"\0\0\0\0\0\0\0\0notenote");
    assert_eq!(way(&old), Way::Prepend);
    let mut new = embedded(&old);
    check_structure(&old, &new).unwrap();
    assert_eq!(offset_of(&new, NOTE), 0x1210);
    let count = usize::from(new[56]);
    let at = (64..64 + 56 * count).step_by(56).find(|&at| new[at] == 4).unwrap();
    new[at + 8..at + 16].copy_from_slice(&0x210_u64.to_le_bytes());
    let error = check_structure(&old, &new).unwrap_err();
    assert!(matches!(error, StructureError::SegmentBytes { offset: 0x210, size: 0x10, .. }), "{error}");
}

/// The first section header has values that no reader uses, or numbers that fit into the ELF header.
#[test]
fn numbers_in_the_first_section_header() {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x210, 0x210]);
    let old = program(&[text], &[text_after(1)], 0x210);
    let first = old.len() - 3 * 64;
    let with = |at: usize, value: u64, counts: &[(usize, u16)]| {
        let mut old = old.clone();
        old[first + at..first + at + 8].copy_from_slice(&value.to_le_bytes());
        for &(at, count) in counts {
            old[at..at + 2].copy_from_slice(&count.to_le_bytes());
        }
        old
    };
    let first_of = |bytes: &[u8], at: usize| {
        let first = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        u64::from_le_bytes(bytes[first + at..first + at + 8].try_into().unwrap())
    };
    // sh_size and sh_offset.
    for at in [32, 24] {
        let unused = with(at, 0x100, &[]);
        let new = embedded(&unused);
        check_structure(&unused, &new).unwrap();
        assert_eq!(first_of(&new, at), 0x100);
    }
    // e_shnum and e_shstrndx.
    for (at, value, counts) in [(32, 3, [(60, 0)]), (40, 2, [(62, 0xffff)])] {
        let used = with(at, value, &counts);
        let new = embedded(&used);
        check_structure(&used, &new).unwrap();
        assert_eq!((new[60], new[62], first_of(&new, at)), (4, 2, 0));
    }
}

/// A number without a section stays as it is, also when the table is removed. It must not become the table's number.
#[test]
fn numbers_without_a_section() {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x210, 0x210]);
    let linking_to = |section: u32| {
        let mut old = program(&[text], &[text_after(1)], 0x210);
        let link = old.len() - 2 * 64 + 40;
        old[link..][..4].copy_from_slice(&section.to_le_bytes());
        old
    };
    let old = linking_to(0x1005);
    let new = embedded(&old);
    check_structure(&old, &new).unwrap();
    let stripped = without_sframe(&File::parse(&new).unwrap()).unwrap().unwrap().to_vec(&new);
    assert_eq!(stripped, old);
    // The file has three sections, so 3 is the number of the table.
    let old = linking_to(3);
    let offset = old.len() as u64 - 2 * 64;
    let damaged = Error::Table { what: "number of a section in a section", offset, value: 3 };
    assert_eq!(Embedding::of(&File::parse(&old).unwrap(), 600).unwrap_err(), EmbedError::File(damaged));
}

/// The name of the table would become part of another name.
#[test]
fn names_of_sections_without_an_end() {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x210, 0x210]);
    let mut old = program(&[text], &[text_after(1)], 0x210);
    let names = header(&old, ".shstrtab");
    old[names.offset + names.size - 1] = b'x';
    let error = Embedding::of(&File::parse(&old).unwrap(), 600).unwrap_err();
    let damaged =
        Error::Table { what: "names of sections", offset: names.offset as u64, value: names.size as u64 };
    assert_eq!(error, EmbedError::File(damaged));
}
