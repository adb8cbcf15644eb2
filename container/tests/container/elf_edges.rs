//! Reads ELF files that are put together field by field (System V ABI, "Object Files"; x86-64 psABI).

use cfipack_cfi::SectionKind;
use cfipack_cfi::write::{Cie, Writer};
use cfipack_container::{Error, File, Placement, SectionName, members};
use cfipack_format::{Address, Arch};

const PROGBITS: u32 = 1;
const RELA: u32 = 4;
const REL: u32 = 9;
const GNU_SFRAME: u32 = 0x6fff_fff4;
const ALLOC: u64 = 2;
const CODE: u64 = 6;

/// A section. `info` and `align` are fields of its header.
struct Made {
    name: &'static str,
    kind: u32,
    flags: u64,
    bytes: Vec<u8>,
    info: u32,
    align: u64,
}

fn made(name: &'static str, kind: u32, flags: u64, bytes: &[u8]) -> Made {
    Made { name, kind, flags, bytes: bytes.to_vec(), info: 0, align: 1 }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns an object of x86-64. Symbol 1 is at 0x100 in section 1, and symbol 2 is absolute: 0x1234.
fn object(sections: &[Made]) -> Vec<u8> {
    let symbol = |section: u64, value| words(&[section << 48, value, 0]);
    let symbols = [words(&[0; 3]), symbol(1, 0x100), symbol(0xfff1, 0x1234)].concat();
    let names =
        sections.iter().fold(vec![0], |names, section| [&names, section.name.as_bytes(), &[0]].concat());
    // The section table also has the sections of symbols and names.
    let tables = [made("", 2, 0, &symbols), made("", 3, 0, &names)];
    let (mut bytes, mut headers, mut name) = (vec![0; 64], vec![0; 64], 1);
    for section in sections.iter().chain(&tables) {
        let (link, entry) = match section.kind {
            RELA => (sections.len() + 1, 24),
            REL => (sections.len() + 1, 16),
            2 => (sections.len() + 2, 24),
            _ => (0, 0),
        };
        let has_name = u64::from(!section.name.is_empty());
        let name_at = has_name * name;
        headers.extend(words(&[name_at | u64::from(section.kind) << 32, section.flags, 0]));
        headers.extend(words(&[bytes.len() as u64, section.bytes.len() as u64]));
        headers.extend(words(&[link as u64 | u64::from(section.info) << 32, section.align, entry]));
        name += section.name.len() as u64 + has_name;
        bytes.extend(&section.bytes);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
    bytes[0x14] = 1;
    let at = bytes.len() as u64;
    bytes[0x28..0x30].copy_from_slice(&at.to_le_bytes());
    let count = sections.len() as u16 + 3;
    for (at, value) in [(0x34, 64), (0x3a, 64), (0x3c, count), (0x3e, count - 1)] {
        bytes[at..at + 2].copy_from_slice(&u16::to_le_bytes(value));
    }
    bytes.extend(headers);
    bytes
}

/// Relocates the field at offset 8 of a section at address 0, and returns its new value.
fn relocated(field: u64, kind: u32, (rel, symbol): (u64, u64), addend: i64) -> Result<u64, Error> {
    let mut entry = words(&[8, symbol << 32 | rel]);
    if kind == RELA {
        entry.extend(addend.to_le_bytes());
    }
    let relocations = Made { info: 2, ..made(".relocations", kind, 0, &entry) };
    let data = made(".sframe", PROGBITS, ALLOC, &words(&[0, field]));
    let bytes = object(&[made(".text", PROGBITS, CODE, &[0x90]), data, relocations]);
    let sections = File::parse_with(&bytes, Placement::Zero).unwrap().sframe_sections()?;
    Ok(u64::from_le_bytes(sections[0].bytes[8..].try_into().unwrap()))
}

const R_64: u64 = 1;
const R_PC32: u64 = 2;
const R_32: u64 = 10;

/// Checks `S + A` and `S + A - P`. P is 8.
#[test]
fn addends_and_symbols() {
    assert_eq!(relocated(0, RELA, (R_64, 1), -4), Ok(0xfc));
    assert_eq!(relocated(0, RELA, (R_64, 2), 4), Ok(0x1238), "SHN_ABS");
    assert_eq!(relocated(0, RELA, (R_PC32, 1), 0), Ok(0xf8));
    // A REL relocation has no addend. The field has it, with a sign.
    assert_eq!(relocated(0xffff_fffc, REL, (R_PC32, 1), 0), Ok(0xf4));
    assert_eq!(relocated(0xffff_fffc, REL, (R_32, 1), 0), Ok(0xfc));
    assert_eq!(relocated(-4_i64 as u64, REL, (R_64, 1), 0), Ok(0xfc));
}

/// A 32-bit address may be signed or unsigned, and a 32-bit distance is signed.
#[test]
fn values_that_do_not_fit() {
    let offset = 8;
    let overflow =
        |value| Err(Error::RelocationOverflow { section: SectionName::new(".sframe"), offset, value });
    let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
    assert_eq!(relocated(0, RELA, (R_PC32, 0), most + 8), Ok(0x7fff_ffff));
    assert_eq!(relocated(0, RELA, (R_PC32, 0), most + 9), overflow(0x8000_0000));
    assert_eq!(relocated(0, RELA, (R_PC32, 0), least + 8), Ok(0x8000_0000));
    assert_eq!(relocated(0, RELA, (R_PC32, 0), least + 7), overflow((least - 1) as u64));
    assert_eq!(relocated(0, RELA, (R_32, 0), 0xffff_ffff), Ok(0xffff_ffff));
    assert_eq!(relocated(0, RELA, (R_32, 0), 0x1_0000_0000), overflow(0x1_0000_0000));
    assert_eq!(relocated(0, RELA, (R_32, 0), least), Ok(0x8000_0000));
}

/// `.eh_frame` counts only if it is loaded. `.sframe` counts by its type or its name.
#[test]
fn sections_that_count() {
    let bytes = object(&[
        made(".eh_frame", PROGBITS, 0, &[0; 4]),
        made(".other", GNU_SFRAME, ALLOC, &[1]),
        made(".sframe", PROGBITS, ALLOC, &[2]),
        made(".another", PROGBITS, ALLOC, &[3]),
    ]);
    let file = File::parse(&bytes).unwrap();
    assert_eq!(file.call_frame_sections().unwrap().len(), 0);
    let found = file.sframe_sections().unwrap();
    assert_eq!(found.iter().map(|section| &section.bytes[..]).collect::<Vec<_>>(), [[1], [2]]);
}

/// Without a limit, sections that claim the same bytes would be copied many times.
#[test]
fn sections_that_overlap() {
    let mut bytes = object(&[
        made(".debug_frame", PROGBITS, 0, &[0; 1000]),
        made(".debug_frame", PROGBITS, 0, &[0; 8]),
        made(".debug_frame", PROGBITS, 0, &[0; 8]),
    ]);
    assert_eq!(File::parse(&bytes).unwrap().call_frame_sections().unwrap().len(), 3);
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    for section in [2, 3] {
        // The section gets the offset and the size of the first section.
        bytes.copy_within(headers + 64 + 24..headers + 64 + 40, headers + 64 * section + 24);
    }
    let error = File::parse(&bytes).unwrap().call_frame_sections().unwrap_err();
    let section = SectionName::new(".debug_frame");
    assert_eq!(error, Error::SectionsOverlap { section, offset: 64, size: 1000 });
}

/// An error of a table beyond the end of the file has the place that the file declares.
#[test]
fn symbols_beyond_the_file() {
    let mut bytes = object(&[made(".text", PROGBITS, CODE, &[0x90])]);
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    let size = headers + 2 * 64 + 32;
    let offset = u64::from_le_bytes(bytes[size - 8..size].try_into().unwrap());
    bytes[size..size + 8].copy_from_slice(&0x1800_u64.to_le_bytes());
    let error = File::parse(&bytes).unwrap().symbols().unwrap_err();
    assert_eq!(error, Error::Table { what: "symbol table", offset, value: 0x1800 });
}

/// The header of a compressed section (`Elf64_Chdr`): type, size and alignment.
#[test]
fn compression_that_is_unknown() {
    const COMPRESSED: u64 = 0x800;
    let error = |bytes: &[u8]| {
        let bytes = object(&[made(".debug_frame", PROGBITS, COMPRESSED, bytes)]);
        File::parse(&bytes).unwrap().call_frame_sections().unwrap_err()
    };
    let section = SectionName::new(".debug_frame");
    assert_eq!(error(&words(&[3, 4, 1, 0])), Error::CompressionType { section, value: 3 });
    assert_eq!(error(&[1; 23]), Error::CompressionHeader { section, size: 23 });
}

/// `.zdebug_frame`: "ZLIB", the size in big-endian order, and a zlib stream. Here the stream is an empty
/// stored block (RFC 1951).
#[test]
fn compression_by_name() {
    let error = |bytes: &[u8]| {
        let bytes = object(&[made(".zdebug_frame", PROGBITS, 0, bytes)]);
        File::parse(&bytes).unwrap().call_frame_sections().unwrap_err()
    };
    let section = SectionName::new(".zdebug_frame");
    assert_eq!(error(b"ZLIB\0\0\0\0\0\0\0"), Error::CompressionHeader { section, size: 11 });
    assert_eq!(error(b"zlib\0\0\0\0\0\0\0\x01x"), Error::CompressionHeader { section, size: 13 });
    let claim = |size: u64| {
        let stream = b"\x78\x01\x01\0\0\xff\xff\0\0\0\x01";
        error(&[&b"ZLIB"[..], &size.to_be_bytes(), stream].concat())
    };
    // The first size is wrong, and the second size would take too much memory.
    assert_eq!(claim(1), Error::Compressed { section, size: 1 });
    assert_eq!(claim(u64::MAX), Error::Compressed { section, size: u64::MAX });
}

/// Returns the start and size of the FDEs in `.debug_frame` that count. `functions` are all FDEs, `sections`
/// the flags, addresses and sizes of other sections, and `symbol` the address and size of a function.
fn found_of(sections: &[(u64, u64, usize)], symbol: (u64, u64), functions: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut cfi = Writer::new(SectionKind::DebugFrame, Arch::Amd64, Address(0));
    let cie = cfi.cie(&Cie::new(Arch::Amd64, &[0x0c, 7, 8]).with_augmentation(b"")).unwrap();
    for &(start, size) in functions {
        cfi.fde(&cie, Address(start), size, None, &[]).unwrap();
    }
    let mut all: Vec<_> =
        sections.iter().map(|&(flags, _, size)| made(".s", PROGBITS, flags, &vec![0; size])).collect();
    all.push(made(".debug_frame", PROGBITS, 0, cfi.as_bytes()));
    let mut bytes = object(&all);
    // The file type is ET_EXEC.
    bytes[16] = 2;
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    for (number, (_, address, _)) in sections.iter().enumerate() {
        bytes[headers + 64 * (number + 1) + 16..][..8].copy_from_slice(&address.to_le_bytes());
    }
    let symbols = headers + 64 * (all.len() + 1) + 24;
    let symbols = u64::from_le_bytes(bytes[symbols..symbols + 8].try_into().unwrap()) as usize;
    // The symbol has type STT_FUNC and is in section 1. Its name is `.s`.
    bytes[symbols + 24..][..24].copy_from_slice(&words(&[1 | 2 << 32 | 1 << 48, symbol.0, symbol.1]));
    let sections = File::parse(&bytes).unwrap().call_frame_sections().unwrap();
    let functions = sections.iter().flat_map(|section| cfipack_cfi::Functions::new(&section.cfi()));
    functions.map(|function| function.unwrap()).map(|function| (function.key.0, function.size)).collect()
}

/// FDEs count for code in a section that is not marked as code, and for code that shares its addresses with
/// data. At 0 and outside of all sections, the linker discarded the function.
#[test]
fn code_in_sections_of_data() {
    let sections = [(CODE, 0x1000, 16), (ALLOC, 0x2000, 16), (CODE, 0x3000, 16), (ALLOC, 0x3000, 4)];
    let real = [(0x1000, 4), (0x2000, 4), (0x3000, 4), (0x3008, 4)];
    let discarded = [(0, 4), (0x1010, 4), (u64::MAX, 4)];
    assert_eq!(found_of(&sections, (0x1000, 4), &[&real[..], &discarded].concat()), real);
}

/// If data lies at 0, as in kernels, a function at 0 exists only if it has a symbol.
#[test]
fn functions_at_zero() {
    let found = |flags, symbol| found_of(&[(flags, 0, 32)], (symbol, 8), &[(0, 4), (0, 8)]);
    assert_eq!(found(ALLOC, 0x10), []);
    assert_eq!(found(ALLOC, 0), [(0, 8)]);
    assert_eq!(found(CODE, 0), [(0, 8)]);
    assert_eq!(found(CODE, 0x10), [(0, 4), (0, 8)]);
}

/// A symbol without a size extends to the end of its section, but not if it lies after that end.
#[test]
fn a_function_behind_its_section() {
    let sections = [(CODE, 0x1000, 16), (CODE, 0x2000, 16)];
    let functions = [(0x2000, 4), (0x2000, 8)];
    assert_eq!(found_of(&sections, (0x2000, 0), &functions), functions);
}

#[test]
fn places_are_aligned() {
    let code = |align| Made { align, ..made(".text", PROGBITS, CODE, &[0x90]) };
    let bytes = object(&[code(1), code(4096), code(64), code(3)]);
    let found = File::parse(&bytes).unwrap().code_sections().unwrap();
    let addresses: Vec<_> = found.iter().map(|section| section.address.0).collect();
    assert!(addresses[1].is_multiple_of(4096) && addresses[2].is_multiple_of(64), "{addresses:x?}");
    assert!(addresses.is_sorted_by(|a, b| a < b), "{addresses:x?}");
}

/// Returns a frame of zstd (RFC 8878) with a single run of zeros. `.debug_frame` claims the size of this run.
#[cfg(feature = "compression")]
#[test]
fn bytes_that_become_too_many() {
    const COMPRESSED: u64 = 0x800;
    let debug_frame = |size: u32| {
        let block = (size << 3 | 1 << 1 | 1).to_le_bytes();
        let frame = [&b"\x28\xb5\x2f\xfd\xa0"[..], &size.to_le_bytes(), &block[..3], &[0]].concat();
        let header = words(&[2, size.into(), 1]);
        assert_eq!(frame.len(), 13);
        object(&[made(".debug_frame", PROGBITS, COMPRESSED, &[header, frame].concat())])
    };
    let most = 13 * 1032;
    let bytes = debug_frame(most);
    let sections = File::parse(&bytes).unwrap().call_frame_sections().unwrap();
    assert!(sections[0].section.bytes == vec![0; most as usize]);
    let (section, size) = (SectionName::new(".debug_frame"), u64::from(most) + 1);
    let error = File::parse(&debug_frame(most + 1)).unwrap().call_frame_sections().unwrap_err();
    assert_eq!(error, Error::Compressed { section, size });
}

/// Zstd may expand each section so much, but all sections together exceed 64 bytes per byte of the file.
#[cfg(feature = "compression")]
#[test]
fn sections_that_become_too_many_bytes_together() {
    const COMPRESSED: u64 = 0x800;
    let size = 13 * 1032_u32;
    let block = (size << 3 | 1 << 1 | 1).to_le_bytes();
    let frame = [&b"\x28\xb5\x2f\xfd\xa0"[..], &size.to_le_bytes(), &block[..3], &[0]].concat();
    let section = [words(&[2, size.into(), 1]), frame].concat();
    let sections = std::iter::repeat_with(|| made(".debug_frame", PROGBITS, COMPRESSED, &section));
    let bytes = object(&sections.take(40).collect::<Vec<_>>());
    let room = 64 * bytes.len() as u64 % u64::from(size);
    let error = File::parse(&bytes).unwrap().call_frame_sections().unwrap_err();
    let section = SectionName::new(".debug_frame");
    assert_eq!(error, Error::CompressedSize { section, size: size.into(), room });
    assert_eq!(
        error.to_string(),
        format!(
            "section .debug_frame: offset 0x0: decompresses to 0x3468 bytes, of which {room:#x} are left: 64 for \
             each byte of the file"
        )
    );
}

fn corpus(name: &str) -> Vec<u8> {
    let corpora = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    std::fs::read(corpora.join(name)).unwrap()
}

/// `readelf -d` prints this address. The file has no section `.got`.
#[test]
fn the_got_is_where_the_dynamic_section_says() {
    for name in ["container/linked.so", "container/sectionless.so"] {
        let bytes = corpus(name);
        let sections = File::parse(&bytes).unwrap().call_frame_sections().unwrap();
        assert_eq!(sections[0].data, Address(0x1fe8), "{name}");
    }
}

/// Returns a file with two segments and no sections: `.eh_frame` with a terminator between two FDEs, and
/// `.eh_frame_hdr` with a table of values of 4 or 8 bytes, or without a table.
fn segments(table: Option<usize>) -> (Vec<u8>, usize) {
    let (header, frames) = (0x100_u64, 0x200);
    let mut cfi = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(frames));
    let mut fdes = Vec::new();
    for start in [0x1000, 0x2000] {
        let cie = cfi.cie(&Cie::new(Arch::Amd64, &[0x0c, 7, 8]).with_augmentation(b"")).unwrap();
        fdes.push(cfi.offset().0);
        cfi.fde(&cie, Address(start), 8, None, &[]).unwrap();
        cfi.terminator();
    }
    let cfi = cfi.into_bytes();
    let width = table.unwrap_or(4);
    let distance = |to: u64, from: u64| (to - from).to_le_bytes()[..width].to_vec();
    let wide = u8::from(width == 8);
    let mut hdr =
        if table.is_some() { vec![1, 0x1b + wide, 3, 0x3b + wide] } else { vec![1, 0x1b, 0xff, 0xff] };
    hdr.extend(distance(frames, header + 4));
    if table.is_some() {
        hdr.extend(2_u32.to_le_bytes());
        for (start, fde) in [0x1000, 0x2000].into_iter().zip(&fdes) {
            hdr.extend(distance(start, header));
            hdr.extend(distance(frames + *fde as u64, header));
        }
    }
    let mut bytes = vec![0; 0x300];
    bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
    for (at, value) in [(0x20, 64), (0x34, 64), (0x36, 56), (0x38, 2)] {
        bytes[at] = value;
    }
    let segment = |kind, offset, size| words(&[kind, offset, offset, offset, size, size, 4]);
    let both = [segment(1 | 4 << 32, 0, 0x300), segment(0x6474_e550, header, hdr.len() as u64)].concat();
    bytes[64..][..both.len()].copy_from_slice(&both);
    bytes[header as usize..][..hdr.len()].copy_from_slice(&hdr);
    bytes[frames as usize..][..cfi.len()].copy_from_slice(&cfi);
    (bytes, cfi.len())
}

/// `.eh_frame` ends with the last FDE of the table, or without a table at the first terminator.
#[test]
fn terminators_in_the_middle() {
    for width in [4, 8] {
        let (bytes, length) = segments(Some(width));
        let file = File::parse(&bytes).unwrap();
        let found = file.call_frame_sections().unwrap();
        assert_eq!((found[0].section.address, found[0].section.bytes.len()), (Address(0x200), length - 4));
        let index = file.as_elf().unwrap().fde_index().unwrap().unwrap();
        assert_eq!(index.eh_frame, Some(Address(0x200)));
        let entries: Vec<_> = index.entries.iter().map(|entry| (entry.offset, entry.start.0)).collect();
        let first = 8 + width as u64;
        assert_eq!(entries, [(first, 0x1000), (first + 2 * width as u64, 0x2000)]);
        assert!(index.entries.iter().all(|entry| entry.fde.0 >= 0x200));
    }
    let (bytes, length) = segments(None);
    let found = File::parse(&bytes).unwrap().call_frame_sections().unwrap();
    assert_eq!(found[0].section.bytes.len(), length / 2 - 4);
}

/// llvm-mc's objects of arm64 have 8-byte distances in `__eh_frame`. 4 bytes are allowed too, but not fewer.
#[test]
fn narrow_fields_of_mach_o() {
    let bytes = corpus("compact-unwind/mc/a10_fl_65536.o");
    // llvm-objdump -r prints a pair at 0x1c. The section's relocations start at 576.
    let width = |log2: u8| {
        let mut bytes = bytes.clone();
        for relocation in [576, 584] {
            assert_eq!(bytes[relocation..relocation + 4], 0x1c_u32.to_le_bytes());
            bytes[relocation + 7] = bytes[relocation + 7] & !6 | log2 << 1;
        }
        File::parse(&bytes).unwrap().call_frame_sections().map(|sections| sections.len())
    };
    assert_eq!((width(3), width(2)), (Ok(1), Ok(1)));
    let error = Err(Error::RelocationField { section: SectionName::new("__eh_frame"), offset: 0x1c });
    assert_eq!((width(1), width(0)), (error, error));
}

/// The error has the offset after the previous member, where the damaged member begins.
#[test]
fn a_damaged_member_of_an_archive() {
    let archive = |second: &str| {
        let header =
            |name: &str, size: &str| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 0);
        format!("!<arch>\n{}1234{}5678", header("one/", "4"), header("two/", second))
    };
    let read = |archive: &str| {
        let members = members(archive.as_bytes()).unwrap();
        members.map(|member| member.map(|member| member.bytes.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(read(&archive("4")), [Ok(b"1234".to_vec()), Ok(b"5678".to_vec())]);
    let damaged = read(&archive("x"));
    assert_eq!(damaged[..2], [Ok(b"1234".to_vec()), Err(Error::Archive { offset: 8 + 60 + 4 })]);
}
