//! Makes files in which names start at successive bytes of one long name. Reading each name to its end takes time that
//! is the square of the file's size.

use cfipack_cfi as cfi;
use cfipack_cfi::SectionKind;
use cfipack_cfi::write::{Cie, Writer};
use cfipack_encoder::sframe::Options;
use cfipack_format::{Address, Arch};

use super::files::{
    ALLOC, CODE, DEBUG, EH, NAMES, Section, TEXT, eh_frame, elf_with_names, named, relocations, symbols,
};
use super::{Input, Shape};
use crate::convert::convert;

/// Shapes of names.
pub const OVERLAPPING_NAMES: &[Shape] = &[
    ("of symbols", |n| Input::File(functions(n, n))),
    ("of one symbol for many functions", |n| Input::File(functions(n, 1))),
    ("of sections", |n| {
        let code = Section { flags: ALLOC | CODE, bytes: vec![0x90; 16], ..named(TEXT) };
        let own = NAMES.len() as u32;
        elf_with_names(
            1,
            (0..n as u32).map(|i| Section { name: own + i, ..code.clone() }).collect(),
            &long(n),
        )
    }),
    ("of members", |n| Input::File(archive(n, &[long(n), b"/\n".to_vec()].concat(), object))),
    ("of members, without objects", |n| {
        Input::File(archive(n, &[long(n), b"/\n".to_vec()].concat(), |_| Vec::new()))
    }),
    ("of members, as long as they may be", |n| Input::File(archive(n, &limited(n, b'n'), object))),
    ("of members, which are not UTF-8", |n| Input::File(archive(n, &limited(n, 0xff), object))),
    ("of members of a thin archive", |n| {
        // The names have as many bytes as the headers of the members.
        let mut bytes = archive(n, &limited(16 * n, b'n'), |_| Vec::new());
        bytes[..8].copy_from_slice(b"!<thin>\n");
        Input::File(bytes)
    }),
    ("of members of a fat file", |n| {
        let archive = archive(n, &limited(n, b'n'), object);
        let header = [0xcafe_babe, 1, 0x0100_0007, 3, 4096, archive.len() as u32, 12];
        let mut bytes = header.map(u32::to_be_bytes).as_flattened().to_vec();
        bytes.resize(4096, 0);
        Input::File([bytes, archive].concat())
    }),
    ("of symbols of a Mach-O object", |n| Input::File(mach_o(n))),
];

/// Returns a name that is much longer than the thing it names, even from byte `n` on.
fn long(n: usize) -> Vec<u8> {
    vec![b'n'; 512 * n + 8192]
}

/// Returns names of 4000 bytes, near the limit, for `n` members. 64 members end at the same place.
fn limited(n: usize, byte: u8) -> Vec<u8> {
    [vec![byte; 4000], b"/\n".to_vec()].concat().repeat(n.div_ceil(256))
}

/// Makes a linked file with functions, their table, and symbols for the first `symbols_of` functions.
fn functions(n: usize, symbols_of: usize) -> Vec<u8> {
    let functions: Vec<_> = (0..symbols_of as u64).map(|i| (2, 16 * i)).collect();
    let mut table_of_symbols = symbols(1, &functions);
    for (i, symbol) in table_of_symbols.bytes.chunks_exact_mut(24).skip(1).enumerate() {
        symbol[..4].copy_from_slice(&(NAMES.len() as u32 + i as u32).to_le_bytes());
        let size = if symbols_of == n { 16 } else { 16 * n as u64 };
        symbol[16..].copy_from_slice(&size.to_le_bytes());
    }
    let code = Section { flags: ALLOC | CODE, bytes: vec![0x90; 16 * n], ..named(TEXT) };
    let mut frames = Writer::new(SectionKind::DebugFrame, Arch::Amd64, Address(0));
    let cie = frames.cie(&Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1]).with_augmentation(b"")).unwrap();
    for i in 0..n as u64 {
        frames.fde(&cie, Address(16 * i), 16, None, &[0x41, 0x0e, 16]).unwrap();
    }
    let frames = frames.into_bytes();
    let sframe = table(SectionKind::DebugFrame, &frames);
    bytes_of(elf_with_names(
        2,
        vec![table_of_symbols, code, Section { bytes: frames, ..named(DEBUG) }, sframe],
        &long(n),
    ))
}

/// Makes a section of CFI at address 0.
fn table(kind: SectionKind, frames: &[u8]) -> Section {
    let section = cfi::Section::new(kind, frames, Address(0), Arch::Amd64);
    let bytes = convert(&[section], Arch::Amd64, Address(0), Options::new()).bytes;
    Section { kind: 0x6fff_fff4, flags: ALLOC, bytes, ..named(TEXT) }
}

/// Makes a relocatable object with a function. Every eighth has a table.
fn object(number: usize) -> Vec<u8> {
    let frames = Section { flags: ALLOC, bytes: eh_frame(), ..named(EH) };
    let code = Section { flags: ALLOC | CODE, bytes: vec![0x90; 16], ..named(TEXT) };
    let mut sections = vec![symbols(1, &[(3, 0)]), frames, code, relocations(2, 1, &[0x20])];
    if number.is_multiple_of(8) {
        sections.push(table(SectionKind::EhFrame, &eh_frame()));
    }
    bytes_of(elf_with_names(1, sections, b""))
}

fn bytes_of(input: Input) -> Vec<u8> {
    let Input::File(bytes) = input else { return Vec::new() };
    bytes
}

/// Makes an archive of members whose names start at successive bytes of `names`, while there are bytes left.
fn archive(n: usize, names: &[u8], member: fn(usize) -> Vec<u8>) -> Vec<u8> {
    let entry = |name: &str, bytes: &[u8]| {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, bytes.len());
        [header.as_bytes(), bytes, &b"\n"[..bytes.len() % 2]].concat()
    };
    // If several names end at one place, only the first 64 starts are used.
    let limit = if names.starts_with(&long(n)) { n } else { 64 };
    let members = (0..n).flat_map(|i| entry(&format!("/{}", i % limit), &member(i)));
    [b"!<arch>\n".to_vec(), entry("//", names), members.collect()].concat()
}

/// Makes a relocatable object for x86-64 with a section of code, a row of compact unwind, and a symbol for each byte.
fn mach_o(n: usize) -> Vec<u8> {
    let row = [0_u64, n as u64 | 0x0100_0000 << 32, 0, 0].map(u64::to_le_bytes).concat();
    let names = [&b"\0"[..], &long(n), b"\0"].concat();
    let (commands, code) = (72 + 2 * 80 + 24, 32 + 72 + 2 * 80 + 24);
    let rows = code + n;
    let symbols_at = rows + row.len();
    let mut bytes =
        [0xfeed_facf, 0x0100_0007, 3, 1, 2, commands as u32, 0x2000, 0].map(u32::to_le_bytes).concat();
    bytes.extend([0x19, 72 + 2 * 80].map(u32::to_le_bytes).as_flattened());
    bytes.extend([0; 16]);
    let size = (n + row.len()) as u64;
    bytes.extend([0, size, code as u64, size].map(u64::to_le_bytes).as_flattened());
    bytes.extend([7, 7, 2, 0].map(u32::to_le_bytes).as_flattened());
    for (name, segment, address, len, flags) in
        [("__text", "__TEXT", 0, n, 0x8000_0400_u32), ("__compact_unwind", "__LD", n, row.len(), 0x0200_0000)]
    {
        for name in [name, segment] {
            bytes.extend([name.as_bytes(), &[0; 16]].concat().iter().take(16));
        }
        bytes.extend([address as u64, len as u64].map(u64::to_le_bytes).as_flattened());
        bytes.extend([(code + address) as u32, 0, 0, 0, flags, 0, 0, 0].map(u32::to_le_bytes).as_flattened());
    }
    let strings = symbols_at + 16 * n;
    bytes.extend(
        [2, 24, symbols_at as u32, n as u32, strings as u32, names.len() as u32]
            .map(u32::to_le_bytes)
            .as_flattened(),
    );
    bytes.extend(vec![0x90; n]);
    bytes.extend(row);
    for i in 0..n as u64 {
        // N_SECT | N_EXT, in the first section.
        bytes.extend(((1 + i) | 0x0f << 32 | 1 << 40).to_le_bytes());
        bytes.extend(i.to_le_bytes());
    }
    bytes.extend(names);
    bytes
}
