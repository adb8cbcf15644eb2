//! Compares the text dump with the output of `readelf --sframe` for the same object.

use std::fs;
use std::path::{Path, PathBuf};

use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use cfipack_format::sframe::{Abi, Flags, Version};

use crate::elf;
use crate::table::{ADDRESS, Function, table};

/// Returns every object under `corpora/sframe` that has a golden beside it.
pub fn objects() -> Vec<(PathBuf, String)> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe");
    let mut found = Vec::new();
    for arch in fs::read_dir(&corpora).expect("corpora/sframe") {
        for entry in fs::read_dir(arch.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            let object = path.extension().is_some_and(|extension| extension == "o");
            if object && let Ok(golden) = fs::read_to_string(path.with_extension("readelf")) {
                found.push((path, golden));
            }
        }
    }
    found.sort();
    assert!(found.len() > 500, "{} goldens", found.len());
    found
}

#[test]
fn dump_is_what_readelf_prints() {
    for (path, golden) in objects() {
        let file = fs::read(&path).unwrap();
        let bytes = elf::sframe(&file).expect("a golden, so a section");
        let section = Section::parse(&bytes, Address(0)).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let mut text = String::new();
        section.dump(&mut text, ".sframe").unwrap();
        assert_eq!(text, golden, "{path:?}");
        section.validate().unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
}

/// Returns the lines of a dump after the header. The table's address is 0.
fn lines(bytes: &[u8]) -> Vec<String> {
    let section = Section::parse(bytes, Address(0)).unwrap();
    let mut text = String::new();
    section.dump(&mut text, ".sframe").unwrap();
    let (_, functions) = text.split_once("  Function Index :\n").unwrap();
    functions.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Dumps tables that no available tool writes. objcopy put them into an object, and readelf 2.47.50.20261021
/// printed the expected lines for it.
#[test]
fn dumps_of_what_no_tool_writes() {
    let at = ADDRESS + 0x40;
    let cells = |fres: &[&[u8]], version, abi, info, info2, rep| {
        let function = Function::new(at, 32, fres).with(info, info2, rep);
        lines(&table(version, abi, Flags::START_PCREL, &[function]))
    };
    let head = "    STARTPC         CFA       FP        RA           ";

    // Version 2 on s390x: an odd word is a register.
    let fres: &[&[u8]] =
        &[&[0, 3, 0], &[1, 5, 2, 0xd0], &[1, 7, 2, 0, 0x31], &[1, 7, 2, 0x33, 0x31], &[1, 5, 2, 0x33]];
    let expected = [
        "    func idx [0]: pc = 0x40, size = 32 bytes",
        head,
        "    0000000000000040  sp+160    u         u            ",
        "    0000000000000041  sp+176    u         c-48         ",
        "    0000000000000041  sp+176    r24       U            ",
        "    0000000000000041  sp+176    r24       r25          ",
        "    0000000000000041  sp+176    u         r25          ",
    ];
    assert_eq!(cells(fres, Version::V2, Abi::S390x, 0, 0, 0), expected);

    // In version 3 the same word is an offset, and a 0 is padding even without a frame pointer.
    let fres: &[&[u8]] = &[&[1, 7, 2, 0x33, 0x31], &[1, 5, 2, 0]];
    let expected = [
        "    func idx [0]: pc = 0x40, size = 32 bytes",
        head,
        "    0000000000000041  sp+176    c+49      c+51         ",
        "    0000000000000041  sp+176    u         U            ",
    ];
    assert_eq!(cells(fres, Version::V3, Abi::S390x, 0, 0, 0), expected);

    // FLEX on s390x: the CFA's offset is scaled whether or not it is dereferenced.
    let expected = [
        "    func idx [0]: pc = 0x40, size = 32 bytes, attr = \"F\"",
        head,
        "    0000000000000040  (sp+168)  u         u            ",
        "    0000000000000040  (fp+168)  u         u            ",
    ];
    let fres: &[&[u8]] = &[&[0, 4, 0x7b, 1], &[0, 4, 0x5b, 1]];
    assert_eq!(cells(fres, Version::V3, Abi::S390x, 0, 1, 0), expected);

    // AArch64 with key B, FLEX, and a signed return address in x30.
    let expected = [
        "    func idx [0]: pc = 0x40, size = 32 bytes, attr = \"F\", pauth = B key",
        head,
        "    0000000000000040  sp+8      u         u            ",
        "    0000000000000042  sp+8      c-16      U            ",
        "    0000000000000042  sp+8      u         r30+1[s]     ",
    ];
    let fres: &[&[u8]] = &[&[0, 4, 0xf9, 8], &[2, 10, 0xf9, 8, 0, 2, 0xf0], &[2, 0x88, 0xf9, 8, 0xf1, 1]];
    assert_eq!(cells(fres, Version::V3, Abi::Aarch64, 0x20, 1, 0), expected);

    // amd64: a FLEX PC-mask signal frame with bit 5 set, which means key B only on AArch64.
    let expected = [
        "    func idx [0]: pc = 0x40, size = 32 bytes, attr = \"SF\"",
        "    STARTPC[m]      CFA       FP        RA           ",
        "    0000000000000000  sp+8      u         f            ",
        "    0000000000000001  sp+8      u         c-16         ",
        "    0000000000000002  sp+8      c-16      U            ",
        "    0000000000000003  sp+8      c-16      c-8          ",
        "    0000000000000004  RA undefined",
    ];
    let fres: &[&[u8]] = &[
        &[0, 4, 0x39, 8],
        &[1, 8, 0x39, 8, 2, 0xf0],
        &[2, 10, 0x39, 8, 0, 2, 0xf0],
        &[3, 12, 0x39, 8, 2, 0xf8, 2, 0xf0],
        &[4, 0],
    ];
    assert_eq!(cells(fres, Version::V3, Abi::Amd64, 0xb0, 1, 16), expected);
    // The specification of version 2 has no signal bit, but readelf prints it.
    let fres: &[&[u8]] = &[&[0, 3, 8]];
    let first = &cells(fres, Version::V2, Abi::Amd64, 0xa0, 0, 0)[0];
    assert_eq!(first, "    func idx [0]: pc = 0x40, size = 32 bytes, attr = \"S\"");
}
