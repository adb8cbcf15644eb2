//! Makes ELF files for x86-64, and archives.

use cfipack_cfi::SectionKind;
use cfipack_cfi::write::{Cie, Writer};
use cfipack_format::{Address, Arch, SectionOffset};

use super::{Input, Shape};

/// Shapes of files.
pub const FILES: &[Shape] = &[
    ("many .eh_frame sections", |n| {
        let mut sections = vec![symbols(1, &[(1, 0)])];
        for i in 0..n {
            sections.push(Section { flags: ALLOC, bytes: eh_frame(), ..named(EH) });
            sections.push(relocations(2 * i as u32 + 2, 1, &[0x20]));
        }
        elf(1, sections)
    }),
    ("symbol tables for each section of relocations", |n| {
        let mut sections = Vec::new();
        for i in 0..n as u32 {
            sections.push(symbols(3 * i + 1, &[(1, 0)]));
            sections.push(Section { flags: ALLOC, bytes: eh_frame(), ..named(EH) });
            sections.push(relocations(3 * i + 2, 3 * i + 1, &[0x20]));
        }
        elf(1, sections)
    }),
    ("relocations of one section", |n| {
        let fields = vec![0x20; 4 * n];
        let eh_frame = Section { flags: ALLOC, bytes: eh_frame().repeat(n), ..named(EH) };
        elf(1, vec![symbols(1, &[(1, 0)]), eh_frame, relocations(2, 1, &fields)])
    }),
    ("sections of code", |n| {
        elf(
            1,
            (0..n).map(|_| Section { flags: ALLOC | CODE, bytes: vec![0x90; 16], ..named(TEXT) }).collect(),
        )
    }),
    ("sections of code at one address", |n| {
        elf(
            2,
            (0..n).map(|_| Section { flags: ALLOC | CODE, bytes: vec![0x90; 16], ..named(TEXT) }).collect(),
        )
    }),
    ("sections that overlap", |n| {
        let mut input = elf(1, vec![Section { flags: ALLOC, bytes: vec![0; 64 * n], ..named(EH) }; 8]);
        let Input::File(bytes) = &mut input else { return input };
        // All sections have the file offset of the first.
        let headers = bytes.len() - 64 * 10;
        for section in 2..9 {
            bytes.copy_within(headers + 64 + 24..headers + 64 + 32, headers + 64 * section + 24);
        }
        input
    }),
    ("symbols at one address", |n| {
        let symbols_at = symbols(1, &vec![(2, 0); n]);
        elf(2, vec![symbols_at, Section { flags: ALLOC | CODE, bytes: vec![0x90; 64], ..named(TEXT) }])
    }),
    ("FDEs of .debug_frame that start where others do", |n| {
        let symbols = symbols(1, &(0..n as u64).map(|i| (2, 8 * (i / 2))).collect::<Vec<_>>());
        let code = Section { flags: ALLOC | CODE, bytes: vec![0x90; 8 * n], ..named(TEXT) };
        elf(2, vec![symbols, code, Section { bytes: debug_frame(n), ..named(DEBUG) }])
    }),
    ("compressed sections", |n| {
        let section = Section { flags: COMPRESSED, bytes: zeros_compressed(13_000), ..named(DEBUG) };
        elf(1, vec![section; n])
    }),
    // A file may not have so many bytes decompressed: it is refused.
    ("a compressed section of a thousand times the file", |n| {
        elf(
            1,
            vec![Section { flags: COMPRESSED, bytes: zeros_compressed(20_000 * n as u32), ..named(DEBUG) }],
        )
    }),
    ("program headers", |n| Input::File(segments(n))),
    ("members of an archive", |n| {
        let Input::File(object) =
            elf(1, vec![symbols(1, &[(1, 0)]), Section { flags: ALLOC, bytes: eh_frame(), ..named(EH) }])
        else {
            return Input::File(Vec::new());
        };
        let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "m/", 0, 0, 0, 644, object.len());
        Input::File([&b"!<arch>\n"[..], &[header.as_bytes(), &object].concat().repeat(n)].concat())
    }),
    ("names of members that end in one place", |n| {
        let names = format!("{}/\n", "n".repeat(4000)).repeat(n.div_ceil(128));
        let entry = |name: &str, bytes: &str| {
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n{bytes}", 0, 0, 0, 644, bytes.len())
        };
        let members: String = (0..n).map(|i| entry(&format!("/{}", i % 64), "")).collect();
        Input::File(["!<arch>\n", &entry("//", &names), &members].concat().into_bytes())
    }),
    ("symbols of an archive's index", |n| {
        let header = |name: &str, size: usize| {
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).into_bytes()
        };
        let (count, size) = (n as u32, 4 + 6 * n);
        let member = 8 + 60 + size as u32;
        let index = [count.to_be_bytes().to_vec(), member.to_be_bytes().repeat(n), b"f\0".repeat(n)].concat();
        Input::File([b"!<arch>\n".to_vec(), header("/", size), index, header("m/", 0)].concat())
    }),
    ("tables of an object, and groups of all of them", |n| {
        let table = Section { kind: 0x6fff_fff4, flags: ALLOC, bytes: vec![3; 32], ..named(TEXT) };
        let members = [1].into_iter().chain((3..3 + n as u32).cycle().take(4 * n));
        let group = Section { kind: 17, link: 2, info: 1, bytes: words(members), ..named(TEXT) };
        elf(1, [vec![named(TEXT), symbols(1, &[(1, 0)])], vec![table; n], vec![group; 2]].concat())
    }),
    ("relocations against symbols that are renumbered", |n| {
        let fields: Vec<_> = (0..n as u64).map(|i| 4 * i).collect();
        let code = Section { flags: ALLOC | CODE, bytes: vec![0x90; 4 * n], ..named(TEXT) };
        elf(1, vec![code, symbols(1, &vec![(1, 0); n]), relocations(1, 2, &fields)])
    }),
    ("empty members of an archive", |n| {
        let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "m/", 0, 0, 0, 644, 0);
        Input::File([&b"!<arch>\n"[..], &header.as_bytes().repeat(n)].concat())
    }),
];

pub(super) const ALLOC: u64 = 2;
pub(super) const CODE: u64 = 4;
const COMPRESSED: u64 = 0x800;
pub(super) const EH: u32 = 1;
pub(super) const DEBUG: u32 = 11;
pub(super) const TEXT: u32 = 24;
/// The names, at the offsets given above.
pub(super) const NAMES: &[u8] = b"\0.eh_frame\0.debug_frame\0.text\0";

/// Makes a library without sections. It has segments of one byte each, and as many notes, all inside each of them.
fn segments(n: usize) -> Vec<u8> {
    let mut bytes = [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat();
    bytes[16..24].copy_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
    bytes[32] = 64;
    bytes[52..56].copy_from_slice(&[64, 0, 56, 0]);
    bytes[56..58].copy_from_slice(&(n as u16).to_le_bytes());
    for i in 0..n as u64 / 2 {
        for [kind, address, size] in [[1, 16 * i, 1], [4, 0, 8 * n as u64]] {
            bytes.extend([kind as u32, 4].map(u32::to_le_bytes).as_flattened());
            bytes.extend([0, address, address, size.min(1), size, 1].map(u64::to_le_bytes).as_flattened());
        }
    }
    bytes
}

/// Makes a CIE and an FDE of 4 bytes. The FDE's start field, at 0x20, has the value 0.
pub(super) fn eh_frame() -> Vec<u8> {
    let mut section = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
    let cie = section.cie(&Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1])).unwrap();
    let field = section.fde(&cie, Address(0x20), 4, None, &[]).unwrap();
    assert_eq!(field, SectionOffset(0x20));
    section.into_bytes()
}

#[derive(Clone, Default)]
pub(super) struct Section {
    pub(super) name: u32,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) link: u32,
    pub(super) info: u32,
    pub(super) entry: u64,
    pub(super) bytes: Vec<u8>,
}

/// Makes a section of type `SHT_PROGBITS`.
pub(super) fn named(name: u32) -> Section {
    Section { name, kind: 1, ..Section::default() }
}

/// Makes a section of type `SHT_SYMTAB`, number `own`. It has functions by section and value, after the null symbol.
pub(super) fn symbols(own: u32, functions: &[(u16, u64)]) -> Section {
    let mut bytes = vec![0; 24];
    for (section, value) in functions {
        bytes.extend([1, 0, 0, 0, 0x12, 0]);
        bytes.extend(section.to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes.extend(8_u64.to_le_bytes());
    }
    // Its strings are in the last section, with the sections' names. `elf` fills the number in.
    Section { kind: 2, link: u32::MAX, info: own, entry: 24, bytes, ..named(TEXT) }
}

/// Returns the bytes of words.
fn words(words: impl Iterator<Item = u32>) -> Vec<u8> {
    words.flat_map(u32::to_le_bytes).collect()
}

/// Makes a section of type `SHT_RELA` with `R_X86_64_PC32` relocations of another section against symbol 1.
pub(super) fn relocations(target: u32, symbols: u32, fields: &[u64]) -> Section {
    let entry = |&field: &u64| [field, 1 << 32 | 2, 0].map(u64::to_le_bytes).concat();
    let bytes = fields.iter().flat_map(entry).collect();
    Section { kind: 4, link: symbols, info: target, entry: 24, bytes, ..named(TEXT) }
}

/// Makes FDEs in pairs, which start at one address and disagree.
fn debug_frame(n: usize) -> Vec<u8> {
    let mut section = Writer::new(SectionKind::DebugFrame, Arch::Amd64, Address(0));
    section.alignment = 4;
    let cie = Cie::new(Arch::Amd64, &[0x0c, 7, 8]).with_augmentation(b"");
    let cie = section.cie(&cie).unwrap();
    for i in 0..n as u64 {
        section.fde(&cie, Address(8 * (i / 2)), 4 + 4 * (i % 2), None, &[0x41, 0x0e, 16]).unwrap();
    }
    section.into_bytes()
}

/// Makes a zstd frame (RFC 8878) of runs of zeros, after the header of a compressed section.
fn zeros_compressed(size: u32) -> Vec<u8> {
    let mut bytes = [2_u64, size.into(), 1].map(u64::to_le_bytes).concat();
    bytes.extend(b"\x28\xb5\x2f\xfd\xa0");
    bytes.extend(size.to_le_bytes());
    let (mut left, most) = (size, 0x1_0000);
    loop {
        let run = left.min(most);
        left -= run;
        bytes.extend(&(run << 3 | 1 << 1 | u32::from(left == 0)).to_le_bytes()[..3]);
        bytes.push(0);
        if left == 0 {
            // A compressed stream must have at least a thousandth of its final size.
            bytes.resize(bytes.len().max(size as usize / 1000 + 24), 0);
            return bytes;
        }
    }
}

/// Makes a file of a type with these sections, after the null section. Their names are in the last section.
fn elf(kind: u16, sections: Vec<Section>) -> Input {
    elf_with_names(kind, sections, b"")
}

/// Makes an ELF file with an additional name.
pub(super) fn elf_with_names(kind: u16, mut sections: Vec<Section>, name: &[u8]) -> Input {
    sections.insert(0, Section::default());
    let names = if name.is_empty() { NAMES.to_vec() } else { [NAMES, name, b"\0"].concat() };
    sections.push(Section { kind: 3, bytes: names, ..Section::default() });
    let last = sections.len() as u32 - 1;
    let mut bytes = vec![0; 64];
    let mut headers: Vec<u8> = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let Section { name, kind, flags, link, info, entry, .. } = *section;
        let link = if link == u32::MAX { last } else { link };
        headers.extend([name, kind].map(u32::to_le_bytes).as_flattened());
        let offset = if index == 0 { 0 } else { bytes.len() as u64 };
        // With more than 0xff00 sections, the first header has their number and the number of the names' section.
        let size = if index == 0 { u64::from(last) + 1 } else { section.bytes.len() as u64 };
        let link = if index == 0 { last } else { link };
        headers.extend([flags, 0, offset, size].map(u64::to_le_bytes).as_flattened());
        headers.extend([link, info].map(u32::to_le_bytes).as_flattened());
        headers.extend([8, entry].map(u64::to_le_bytes).as_flattened());
        bytes.extend(&section.bytes);
    }
    let at = bytes.len() as u64;
    bytes.extend(headers);
    bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    bytes[16..20].copy_from_slice([kind, 62].map(u16::to_le_bytes).as_flattened());
    bytes[20] = 1;
    bytes[40..48].copy_from_slice(&at.to_le_bytes());
    let (count, names) = if last < 0xfeff { (last as u16 + 1, last as u16) } else { (0, 0xffff) };
    bytes[52..64].copy_from_slice([64, 56, 0, 64, count, names].map(u16::to_le_bytes).as_flattened());
    Input::File(bytes)
}
