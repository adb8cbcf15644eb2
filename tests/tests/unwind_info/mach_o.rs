//! Reads Mach-O objects and images, fat files and archives. The symbols that the `object` crate reads give the expected
//! result.

use std::collections::BTreeMap;

use cfipack_container::{File, Kind, members};
use cfipack_format::{Address, Arch};
use cfipack_tests::corpora::{self, Link};
use object::{Object, ObjectSection, ObjectSymbol};

fn link(name: &str) -> Link {
    corpora::compact_unwind_links().into_iter().find(|link| link.name == name).expect(name)
}

/// Returns the symbols of functions by address.
fn symbols(bytes: &[u8]) -> BTreeMap<u64, String> {
    let file = object::File::parse(bytes).unwrap();
    let text = file.section_by_name("__text").map(|text| text.index());
    let symbols = file.symbols().filter(|symbol| symbol.section_index().is_some_and(|s| Some(s) == text));
    symbols.map(|symbol| (symbol.address(), symbol.name().unwrap().to_owned())).collect()
}

fn fde_starts(file: &File<'_>) -> Vec<u64> {
    let sections = file.call_frame_sections().unwrap();
    let functions = sections.iter().flat_map(|section| cfipack_cfi::Functions::new(&section.cfi()));
    functions.map(|function| function.unwrap().key.0).collect()
}

/// On x86-64, FDEs contain distances. On arm64, pairs of relocations have them.
#[test]
fn fdes_lie_at_symbols() {
    let mut fdes = 0;
    for link in corpora::compact_unwind_links() {
        for bytes in [&link.object, &link.image] {
            let (file, symbols) = (File::parse(bytes).unwrap(), symbols(bytes));
            for start in fde_starts(&file) {
                assert!(symbols.contains_key(&start), "{}: {start:#x}", link.name);
                fdes += 1;
            }
        }
    }
    assert!(fdes > 400, "{fdes}");
    for (name, arch) in [("l_8_dwarf_lsda", Arch::Amd64), ("la_8_dwarf_lsda", Arch::Aarch64)] {
        let link = link(name);
        let (object, image) = (File::parse(&link.object).unwrap(), File::parse(&link.image).unwrap());
        assert_eq!((object.arch(), object.kind()), (arch, Kind::Relocatable));
        assert_eq!((image.arch(), image.kind()), (arch, Kind::Linked));
        assert_eq!(fde_starts(&object), [0, 4, 8]);
        assert_eq!(fde_starts(&image).len(), 3);
    }
    for case in corpora::compact_unwind_objects() {
        let (file, symbols) = (File::parse(&case.object).unwrap(), symbols(&case.object));
        assert!(fde_starts(&file).iter().all(|start| symbols.contains_key(start)), "{}", case.name);
    }
}

/// Rows refer to functions, and the third personality is read as the third.
#[test]
fn compact_rows_are_resolved() {
    let mut rows = 0;
    for link in corpora::compact_unwind_links() {
        let symbols = symbols(&link.object);
        let Some(compact) = File::parse(&link.object).unwrap().as_macho().unwrap().compact_unwind().unwrap()
        else {
            continue;
        };
        for row in &compact.rows {
            let known = symbols.contains_key(&row.function.0) || link.name.contains("multirange");
            assert!(known, "{}: {}", link.name, row.function);
            rows += 1;
        }
    }
    assert!(rows > 20_000, "{rows}");
    let link = link("la_6_pers_3");
    let file = File::parse(&link.object).unwrap();
    let compact = file.as_macho().unwrap().compact_unwind().unwrap().unwrap();
    let names: Vec<_> = compact.personalities.iter().map(|personality| &*personality.name).collect();
    assert_eq!(names, ["_p0", "_p1", "_p2"]);
    let numbers: Vec<_> = compact.rows.iter().map(|row| row.personality.unwrap().get()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let lsdas: Vec<_> = compact.rows.iter().map(|row| file.locate(row.lsda.unwrap()).unwrap().name).collect();
    assert_eq!(lsdas, ["__gcc_except_tab"; 3]);
    let undefined = corpora::compact_unwind_objects().into_iter().find(|case| case.name == "x39_pers_gxx");
    let object = undefined.unwrap().object;
    let compact = File::parse(&object).unwrap().as_macho().unwrap().compact_unwind().unwrap().unwrap();
    assert_eq!(compact.personalities[0].name, "___gxx_personality_v0");
    assert_eq!(compact.personalities[0].address, None);
}

#[test]
fn images_list_function_starts() {
    let mut all = 0;
    for link in corpora::compact_unwind_links() {
        let file = File::parse(&link.image).unwrap();
        let starts: Vec<_> =
            file.as_macho().unwrap().function_starts().unwrap().iter().map(|start| start.0).collect();
        // ld64.lld 23 takes the start of a row for a function's start, and a label outside of code for a function.
        if link.name.contains("multirange") || link.name.ends_with("000_nofuncs") {
            continue;
        }
        let symbols = symbols(&link.image);
        assert!(starts.iter().all(|start| symbols.contains_key(start)), "{}", link.name);
        assert!(starts.is_sorted(), "{}", link.name);
        all += starts.len();
        for start in starts {
            let place = file.locate(Address(start)).unwrap();
            assert_eq!(place.name, "__text", "{}", link.name);
            let code = file.code_sections().unwrap();
            assert_eq!(code.iter().map(|section| &*section.name).collect::<Vec<_>>(), ["__text"]);
        }
    }
    assert!(all > 20_000, "{all}");
    let program = link("l_9_exe_regular_base");
    assert_eq!(File::parse(&program.image).unwrap().as_macho().unwrap().image_base(), Address(0x1_0000_0000));
    let names = File::parse(&program.image).unwrap();
    let names = names.symbols().unwrap();
    for (address, name) in symbols(&program.image) {
        let found = names.lookup(Address(address)).unwrap();
        assert_eq!((found.name.as_ref(), found.offset), (name.as_str(), 0));
    }
}

/// Makes a fat file with slices at the given places.
fn fat(wide: bool, slices: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    let word = |file: &mut Vec<u8>, value: u32| file.extend(value.to_be_bytes());
    word(&mut file, if wide { 0xcafe_babf } else { 0xcafe_babe });
    word(&mut file, slices.len() as u32);
    let mut at = 4096;
    for (cpu, subtype, bytes) in slices {
        word(&mut file, *cpu);
        word(&mut file, *subtype);
        for value in [at, bytes.len() as u32] {
            if wide {
                word(&mut file, 0);
            }
            word(&mut file, value);
        }
        word(&mut file, 12);
        if wide {
            word(&mut file, 0);
        }
        at += (bytes.len() as u32).next_multiple_of(4096);
    }
    for (_, _, bytes) in slices {
        file.resize(file.len().next_multiple_of(4096), 0);
        file.extend_from_slice(bytes);
    }
    file
}

/// Makes an archive as macOS writes it, with long names before the members.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let padded = name.len().next_multiple_of(8);
        let size = padded + bytes.len();
        let header = format!("#1/{padded:<13}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 100644);
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(name.as_bytes());
        file.resize(file.len() + padded - name.len(), 0);
        file.extend_from_slice(bytes);
        file.resize(file.len().next_multiple_of(2), b'\n');
    }
    file
}

#[test]
fn fat_files_and_archives_have_members() {
    let (x86, arm) = (link("l_002_one"), link("la_004_two_diff"));
    let archive = archive(&[("first_of_two_members.o", &x86.object), ("second.o", &x86.object)]);
    for wide in [false, true] {
        let file = fat(wide, &[(0x0100_0007, 3, &archive), (0x0100_000c, 0x8000_0002, &arm.image)]);
        let members: Vec<_> = members(&file).unwrap().map(Result::unwrap).collect();
        let names: Vec<_> = members.iter().map(|member| member.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["x86_64:first_of_two_members.o", "x86_64:second.o", "arm64e"]);
        assert_eq!(members[1].bytes, x86.object);
        assert_eq!(members[2].bytes, arm.image);
        let named: Vec<_> = members.iter().map(|member| member.arch.as_deref().unwrap()).collect();
        assert_eq!(named, ["x86_64", "x86_64", "arm64e"]);
        let arches: Vec<_> = members.iter().map(|m| File::parse(m.bytes).unwrap().arch()).collect();
        assert_eq!(arches, [Arch::Amd64, Arch::Amd64, Arch::Aarch64]);
    }
    let arch_of = |bytes: &[u8]| members(bytes).unwrap().next().unwrap().unwrap().arch;
    assert_eq!([&arm.image, &archive].map(|bytes| arch_of(bytes).unwrap()), ["arm64", "x86_64"]);
    assert_eq!(arch_of(b"no object"), None);
    let mut overlapping = fat(false, &[(7, 3, &x86.object), (7, 3, &x86.object)]);
    overlapping.truncate(4096 + x86.object.len());
    let error = members(&overlapping).unwrap_err().to_string();
    assert!(error.starts_with("offset 0x1c: damaged slice of a fat file"), "{error}");
}

#[test]
fn what_is_not_supported_is_named() {
    let object = link("l_002_one").object;
    let with = |at: usize, value: u32| {
        let mut bytes = object.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        File::parse(&bytes).map(|file| file.arch()).unwrap_err().to_string()
    };
    assert_eq!(with(0, 0xcffa_edfe), "offset 0x0: byte order big-endian (0xcffaedfe) is not supported");
    assert_eq!(with(4, 18), "offset 0x4: CPU type PowerPC (0x12) is not supported");
    assert_eq!(
        with(12, 10),
        "offset 0xc: file type dSYM, debug information of another file (0xa) is not supported"
    );
    assert_eq!(with(20, 0xffff), "offset 0x20: damaged load commands (size or count 0xffff)");
}
