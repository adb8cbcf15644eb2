//! Compares relocatable objects that gas wrote with the output of readelf and gas about them.

use std::path::{Path, PathBuf};

use cfipack_container::{Error, File, Kind, Placement, SectionName};
use cfipack_format::Address;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora")
}

/// Returns every object that gas 2.47 wrote, with its path.
fn gas_objects() -> Vec<(PathBuf, Vec<u8>)> {
    let mut objects = Vec::new();
    for arch in ["x86_64", "aarch64", "aarch64_be", "s390x"] {
        for entry in std::fs::read_dir(corpora().join("sframe").join(arch)).unwrap() {
            let path = entry.unwrap().path();
            // `x_sections_sframe` has only .sframe, so there is no CFI to compare with.
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".gas247.o") && name != "x_sections_sframe.gas247.o" {
                objects.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    assert!(objects.len() > 200, "only {} objects in corpora/sframe", objects.len());
    objects
}

/// Returns the start and size of every function in the `.eh_frame` sections.
fn functions(file: &File<'_>) -> Vec<(Address, u64)> {
    let sections = file.call_frame_sections().unwrap();
    let functions = sections.iter().flat_map(|section| cfipack_cfi::Functions::new(&section.cfi()));
    functions
        .map(|function| function.unwrap())
        .map(|function| (function.key.address(), function.size))
        .collect()
}

/// Returns `pc` and `size` of every FDE in a dump of readelf.
fn readelf_functions(dump: &str) -> Vec<(Address, u64)> {
    let lines = dump.lines().filter_map(|line| line.split_once("pc = 0x"));
    let field = |(_, line): (&str, &str)| {
        let (pc, rest) = line.split_once(", size = ").unwrap();
        let size = rest.split(' ').next().unwrap();
        (Address(u64::from_str_radix(pc, 16).unwrap()), size.parse().unwrap())
    };
    lines.map(field).collect()
}

#[test]
fn functions_lie_where_readelf_sees_them() {
    let mut compared = 0;
    for (path, bytes) in gas_objects() {
        let Ok(dump) = std::fs::read_to_string(path.with_extension("readelf")) else { continue };
        let file = File::parse_with(&bytes, Placement::Zero).unwrap();
        assert_eq!(file.kind(), Kind::Relocatable);
        // gas omits some functions from .sframe, but never adds others, and keeps their order.
        let mut functions = functions(&file).into_iter();
        for expected in readelf_functions(&dump) {
            assert!(functions.any(|function| function == expected), "{path:?}: {expected:x?}");
            compared += 1;
        }
    }
    assert!(compared > 250, "only {compared} functions compared");
}

#[test]
fn apart_addresses_lead_back_to_what_gas_relocates_against() {
    let mut compared = 0;
    for (path, bytes) in gas_objects() {
        let file = File::parse(&bytes).unwrap();
        let mut places = functions(&file).into_iter().map(|(start, _)| {
            let location = file.locate(start).unwrap_or_else(|| panic!("{path:?}: {start}"));
            (location.section, location.offset)
        });
        for sframe in file.sframe_sections().unwrap() {
            for relocation in file.relocations(sframe.index.unwrap()).unwrap() {
                let named = relocation.value.wrapping_add_signed(relocation.addend);
                let expected = (relocation.section.unwrap(), named);
                assert!(places.any(|place| place == expected), "{path:?}: {relocation:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 250, "only {compared} functions compared");
}

#[test]
fn sframe_is_relocated_too() {
    let mut compared = 0;
    for (path, bytes) in gas_objects() {
        let file = File::parse(&bytes).unwrap();
        let endian = file.arch().endian();
        let starts: Vec<_> = functions(&file).into_iter().map(|(start, _)| start).collect();
        for sframe in file.sframe_sections().unwrap() {
            for relocation in file.relocations(sframe.index.unwrap()).unwrap() {
                let field = usize::try_from(relocation.offset).unwrap();
                let value = endian.u64(sframe.bytes[field..field + 8].try_into().unwrap()).cast_signed();
                let start = sframe.address.offset(value).offset(relocation.offset.cast_signed());
                assert!(starts.contains(&start), "{path:?}: {start} is no function's start");
                compared += 1;
            }
        }
    }
    assert!(compared > 250, "only {compared} functions compared");
}

#[test]
fn every_group_and_section_has_a_place_and_names() {
    let bytes = std::fs::read(corpora().join("container/linkable.o")).unwrap();
    let file = File::parse(&bytes).unwrap();
    let symbols = file.symbols().unwrap();
    let found: Vec<_> = functions(&file)
        .into_iter()
        .map(|(start, size)| {
            let location = file.locate(start).unwrap();
            let symbol = symbols.lookup(start).unwrap();
            format!("{}+{:#x} {}+{} {size}", location.name, location.offset, symbol.name, symbol.offset)
        })
        .collect();
    assert_eq!(
        found,
        [
            ".text+0x0 first+0 11",
            ".text+0xb third+0 1",
            ".text.second+0x0 second+0 2",
            ".text.unlikely+0x1 fourth+0 2",
        ]
    );
    let code: Vec<_> = file.code_sections().unwrap().into_iter().map(|section| section.name).collect();
    assert_eq!(code, [".text", ".text.second", ".bolt.org.text", ".text.unlikely"]);
    assert_eq!(file.call_frame_sections().unwrap().len(), 1);
    assert_eq!(file.locate(Address(0)), None);
}

/// ld also omitted one of two equal groups, and relocates both FDEs to the group that it kept.
#[test]
fn functions_of_groups_that_are_described_twice() {
    let bytes = std::fs::read(corpora().join("container/comdat.ld.o")).unwrap();
    let sizes = |file: &File<'_>| functions(file).into_iter().map(|(_, size)| size).collect::<Vec<_>>();
    assert_eq!(sizes(&File::parse(&bytes).unwrap()), [6, 3, 6]);
    assert_eq!(sizes(&File::parse_with(&bytes, Placement::Zero).unwrap()), [6, 3, 6, 3]);
}

/// lld discarded one of two equal groups and kept its FDE: `readelf -r` prints `R_X86_64_NONE` for its start.
/// mold keeps the relocation type and sets the symbol to 0.
#[test]
fn functions_of_discarded_groups() {
    for (name, kind) in [("comdat.eh_frame.o", 2), ("comdat.debug_frame.o", 1)] {
        let mut bytes = std::fs::read(corpora().join("container").join(name)).unwrap();
        let (_, entries, size) = section_header(&bytes, &format!(".rela.{}", &name[7..name.len() - 2]));
        let types = (entries..entries + size).step_by(24).map(|entry| entry + 8);
        let none = types.into_iter().find(|&at| bytes[at..at + 8] == [0; 8]).unwrap();
        for kind in [0, kind] {
            bytes[none] = kind;
            let file = File::parse(&bytes).unwrap();
            let found = functions(&file).into_iter().map(|(start, size)| {
                let place = file.locate(start).unwrap();
                (place.name.into_owned(), place.offset, size)
            });
            let expected = [(".text", 0, 6), (".text.shared", 0, 3), (".text", 6, 6)];
            let expected = expected.map(|(name, offset, size)| (name.to_string(), offset, size));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
            let at_zero = File::parse_with(&bytes, Placement::Zero).unwrap();
            assert_eq!(functions(&at_zero), [(0, 6), (0, 3), (6, 6)].map(|(at, size)| (Address(at), size)));
        }
    }
}

#[test]
fn compressed_debug_frame_says_the_same() {
    let read = |name: &str| std::fs::read(corpora().join("container").join(name)).unwrap();
    let plain = read("debug_frame.none.o");
    let expected = functions(&File::parse(&plain).unwrap());
    assert_eq!(expected.iter().map(|&(_, size)| size).collect::<Vec<_>>(), [11, 1, 2, 2]);
    for name in ["debug_frame.zlib.o", "debug_frame.zlib-gnu.o", "debug_frame.zstd.o"] {
        let bytes = read(name);
        let file = File::parse(&bytes).unwrap();
        if cfg!(feature = "compression") {
            assert_eq!(functions(&file), expected, "{name}");
        } else {
            assert!(matches!(file.call_frame_sections(), Err(Error::Compressed { .. })));
        }
    }
}

/// Returns the offset of a section's header, and the offset and size of its bytes.
fn section_header(bytes: &[u8], name: &str) -> (usize, usize, usize) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
    let (headers, count) = (word(0x28), half(0x3c));
    let strings = word(headers + 64 * half(0x3e) + 24);
    let found = (0..count).map(|index| headers + 64 * index).find(|&header| {
        let at = strings + u32::from_le_bytes(bytes[header..header + 4].try_into().unwrap()) as usize;
        bytes[at..].starts_with(name.as_bytes()) && bytes[at + name.len()] == 0
    });
    let header = found.unwrap();
    (header, word(header + 24), word(header + 32))
}

/// The size is in the header of each stream: 8 bytes, in `Elf64_Chdr` after the type, in the old format after "ZLIB".
#[cfg(feature = "compression")]
#[test]
fn streams_of_another_size_than_stated_are_refused() {
    for (kind, section, is_old) in [
        ("zlib", ".debug_frame", false),
        ("zlib-gnu", ".zdebug_frame", true),
        ("zstd", ".debug_frame", false),
    ] {
        let name = format!("container/debug_frame.{kind}.o");
        let old = std::fs::read(corpora().join(name)).unwrap();
        let (_, start, _) = section_header(&old, section);
        // The old format has the size in big-endian order.
        let at = if is_old { start + 4 } else { start + 8 };
        let swapped = |size: u64| if is_old { size.swap_bytes() } else { size };
        let stated = swapped(u64::from_le_bytes(old[at..at + 8].try_into().unwrap()));
        for size in [stated - 1, stated + 1] {
            let mut bytes = old.clone();
            bytes[at..at + 8].copy_from_slice(&swapped(size).to_le_bytes());
            let error = File::parse(&bytes).unwrap().call_frame_sections().unwrap_err();
            assert_eq!(error, Error::Compressed { section: SectionName::new(section), size }, "{kind}");
        }
    }
}

#[test]
fn implicit_addends_come_from_the_fields() {
    let rela = std::fs::read(corpora().join("container/linkable.o")).unwrap();
    // The same object with SHT_REL: 16-byte entries, addends in the fields of .eh_frame.
    let mut rel = rela.clone();
    let (header, entries, size) = section_header(&rela, ".rela.eh_frame");
    let (_, fields, _) = section_header(&rela, ".eh_frame");
    rel[header + 4..header + 8].copy_from_slice(&9_u32.to_le_bytes());
    rel[header + 32..header + 40].copy_from_slice(&(size / 24 * 16).to_le_bytes());
    rel[header + 56..header + 64].copy_from_slice(&16_u64.to_le_bytes());
    for entry in 0..size / 24 {
        let from = entries + 24 * entry;
        rel.copy_within(from..from + 16, entries + 16 * entry);
        let offset = u64::from_le_bytes(rela[from..from + 8].try_into().unwrap()) as usize;
        rel[fields + offset..fields + offset + 4].copy_from_slice(&rela[from + 16..from + 20]);
    }
    assert_eq!(functions(&File::parse(&rel).unwrap()), functions(&File::parse(&rela).unwrap()));
}

#[test]
fn unknown_types_and_symbols_are_errors_with_their_place() {
    let mut bytes = std::fs::read(corpora().join("container/linkable.o")).unwrap();
    let (_, entries, _) = section_header(&bytes, ".rela.eh_frame");
    let section = SectionName::new(".eh_frame");
    let original = bytes.clone();
    bytes[entries + 8] = 99;
    let error = File::parse(&bytes).unwrap().call_frame_sections().unwrap_err();
    assert_eq!(error, Error::RelocationType { section, offset: 0x20, value: 99 });
    assert_eq!(error.to_string(), "section .eh_frame: offset 0x20: relocation type 99 is not one of data");
    bytes.clone_from(&original);
    bytes[entries + 14] = 1;
    let error = File::parse(&bytes).unwrap().call_frame_sections().unwrap_err();
    assert!(matches!(error, Error::RelocationSymbol { offset: 0x20, value, .. } if value >= 0x1_0000));
    bytes.clone_from(&original);
    bytes[entries + 1] = 1;
    let error = File::parse(&bytes).unwrap().call_frame_sections().unwrap_err();
    assert_eq!(error, Error::RelocationField { section, offset: 0x120 });
}
