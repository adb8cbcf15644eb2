//! Expects an error that names the field if one field is wrong, and an error if bytes are missing.

use std::fs;

use cfipack_decoder::sframe::{Error, Section};
use cfipack_format::sframe::{Abi, Flags, Version};
use cfipack_format::{Address, SectionOffset};

use crate::table::{ADDRESS, Function, table};
use crate::{elf, readelf};

const SORTED: Flags = Flags::FDE_SORTED.union(Flags::START_PCREL);

/// Returns three amd64 functions: default, flex, and of size 0. The index is at 28, the FREs are at 76.
fn sample() -> Vec<u8> {
    let first = Function::new(ADDRESS + 0x1000, 0x20, &[&[0, 3, 8], &[1, 5, 16, 0xf0], &[9, 3, 8]]);
    let flex = Function::new(
        ADDRESS + 0x1020,
        0x20,
        &[&[0, 4, 0x39, 8], &[5, 4, 0x51, 0], &[10, 10, 0x33, 0xf8, 0, 2, 0xf0], &[11, 0]],
    );
    let empty = Function::new(ADDRESS + 0x1040, 0, &[&[0, 3, 8]]);
    table(Version::V3, Abi::Amd64, SORTED, &[first, flex.with(0, 1, 0), empty])
}

/// The offsets of the parts of [`sample`].
const ATTRIBUTE: usize = 76;
const FRES: usize = ATTRIBUTE + 5;
const FLEX: usize = FRES + 10;

/// Returns the first error in a table, whether parsing or validating finds it.
fn error(bytes: &[u8]) -> Option<Error> {
    match Section::parse(bytes, Address(ADDRESS)) {
        Err(error) => Some(error),
        Ok(section) => section.validate().err(),
    }
}

fn at(offset: usize) -> SectionOffset {
    SectionOffset(offset)
}

/// Returns the error of [`sample`] with `bytes` at `offset`.
fn patched(offset: usize, bytes: &[u8]) -> Option<Error> {
    let mut table = sample();
    table[offset..offset + bytes.len()].copy_from_slice(bytes);
    error(&table)
}

#[test]
fn the_sample_is_sound() {
    assert_eq!(error(&sample()), None);
}

#[test]
fn header_fields() {
    assert_eq!(patched(0, &[0xde, 0xe2]), Some(Error::ByteOrder { abi: 3 }));
    assert_eq!(patched(0, &[0, 0]), Some(Error::Magic { value: [0, 0] }));
    for value in [0, 4, 255] {
        assert_eq!(patched(2, &[value]), Some(Error::Version { value }));
    }
    // Version 3 does not have the flag FRAME_POINTER.
    for value in [0x07, 0x0d, 0x80] {
        assert_eq!(patched(3, &[value]), Some(Error::Flags { value }));
    }
    for value in [0, 5, 9] {
        assert_eq!(patched(4, &[value]), Some(Error::Abi { value }));
    }
    assert_eq!(patched(4, &[4]), Some(Error::ByteOrder { abi: 4 }));
    // The offset is 0 on AArch64, and -8 on amd64.
    assert_eq!(patched(4, &[2]), Some(Error::FixedReturnAddress { value: -8 }));
    assert_eq!(patched(6, &[0]), Some(Error::FixedReturnAddress { value: 0 }));
    // An auxiliary header of 4 bytes moves the FREs beyond the end.
    assert!(matches!(patched(7, &[4]), Some(Error::FreSubSection { offset: 80, .. })));
    for value in [4, 0x1000, u32::MAX] {
        let expected = Error::FunctionIndex { offset: 28, num_fdes: value };
        assert_eq!(patched(8, &value.to_le_bytes()), Some(expected));
    }
    for value in [0, 9, u32::MAX] {
        assert_eq!(patched(12, &value.to_le_bytes()), Some(Error::NumFres { value, sum: 8 }));
    }
    for len in [0x100, u32::MAX] {
        assert_eq!(patched(16, &len.to_le_bytes()), Some(Error::FreSubSection { offset: 76, len }));
    }
    assert!(matches!(patched(16, &[1]), Some(Error::Trailing { .. })));
    assert!(matches!(patched(20, &[1]), Some(Error::FunctionIndex { offset: 29, .. })));
    assert!(matches!(patched(20, &[0xff; 4]), Some(Error::FunctionIndex { .. })));
    assert!(matches!(patched(24, &[0]), Some(Error::FunctionIndex { offset: 28, .. })));
    assert!(matches!(patched(24, &[0xff; 4]), Some(Error::FreSubSection { .. })));
}

#[test]
fn function_fields() {
    // The second function starts before the first.
    assert_eq!(patched(44, &[0; 8]), Some(Error::NotSorted { offset: at(44) }));
    // The function is shorter than its rows.
    assert_eq!(patched(36, &[0; 4]), Some(Error::StartBeyondEnd { offset: at(FRES + 3), value: 1 }));
    for value in [0x100, u32::MAX] {
        assert_eq!(patched(40, &value.to_le_bytes()), Some(Error::FreOffset { offset: at(28), value }));
    }
    assert!(matches!(patched(ATTRIBUTE, &[0xff, 0xff]), Some(Error::FreCount { value: 0xffff, .. })));
    // With one more FRE, the next function's attribute is read as an FRE.
    assert!(patched(ATTRIBUTE, &[4]).is_some());
    for value in [3, 15] {
        assert_eq!(patched(ATTRIBUTE + 2, &[value]), Some(Error::FreType { offset: at(ATTRIBUTE), value }));
    }
    assert_eq!(patched(ATTRIBUTE + 2, &[0x10]), Some(Error::RepSize { offset: at(ATTRIBUTE) }));
    // FREs with a wider start, and FREs of the other type.
    for fre_type in [1, 2] {
        assert!(patched(ATTRIBUTE + 2, &[fre_type]).is_some());
    }
    assert_eq!(patched(ATTRIBUTE + 3, &[1]), Some(Error::FreInfo { offset: at(FRES), value: 3 }));
    assert_eq!(patched(FLEX + 3, &[0]), Some(Error::WordCount { offset: at(FLEX + 13), value: 5 }));
    for value in [2, 31] {
        assert_eq!(patched(ATTRIBUTE + 3, &[value]), Some(Error::FdeType { offset: at(ATTRIBUTE), value }));
    }
}

#[test]
fn fre_fields() {
    let info = |value| Some(Error::FreInfo { offset: at(FRES), value });
    // Word size 3, other bits without words, and a signed return address.
    for value in [0x63, 0x01, 0x20, 0x80, 0x83] {
        assert_eq!(patched(FRES + 1, &[value]), info(value));
    }
    for (value, count) in [(0x07, 3), (0x0f, 7), (0x1f, 15)] {
        let expected = Error::WordCount { offset: at(FRES), value: count };
        assert_eq!(patched(FRES + 1, &[value]), Some(expected));
    }
    assert_eq!(patched(FRES + 3, &[0x21]), Some(Error::StartBeyondEnd { offset: at(FRES + 3), value: 0x21 }));
    assert_eq!(patched(FRES, &[2]), Some(Error::StartDecreases { offset: at(FRES + 3), value: 1 }));
    assert_eq!(patched(FLEX + 6, &[5]), Some(Error::FreInfo { offset: at(FLEX + 5), value: 5 }));
    // Padding, the stack slot and "CFA plus offset" cannot describe the CFA. Bit 2 is reserved.
    for value in [0, 2, 8, 0x3d] {
        let expected = Error::ControlWord { offset: at(FLEX + 5), value };
        assert_eq!(patched(FLEX + 7, &[value as u8]), Some(expected));
    }
    // For RA and FP: the CFA plus an offset without a load, and a slot with a register number.
    for value in [0x04, 0x08, 0x0a] {
        let expected = Error::ControlWord { offset: at(FLEX + 13), value };
        assert_eq!(patched(FLEX + 18, &[value as u8]), Some(expected));
    }
}

#[test]
fn the_last_fre_is_cut_off() {
    let mut table = sample();
    let fre_len = table.len() - ATTRIBUTE - 1;
    table.pop();
    table[16..20].copy_from_slice(&(fre_len as u32).to_le_bytes());
    assert!(matches!(error(&table), Some(Error::FreTruncated { .. })));
}

/// Returns a table of version 2. All functions share the same rows, and each row starts at 0.
fn shared(functions: u32, rows: u32) -> Vec<u8> {
    let mut bytes = table(Version::V2, Abi::Amd64, Flags::FDE_SORTED, &[]);
    let header = [functions, functions * rows, 3 * rows, 0, 20 * functions];
    bytes[8..28].copy_from_slice(&header.map(u32::to_le_bytes).concat());
    for function in 0..functions {
        let words = [0x1000 + 16 * function, 16, 0, rows, 0];
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }
    bytes.extend([0, 3, 8].repeat(rows as usize));
    bytes
}

/// A table of 160 kB has a hundred million rows. A table of less than 1 kB shares as much as is allowed.
#[test]
fn functions_share_rows_within_limits() {
    let bytes = shared(5_000, 20_000);
    let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
    let (functions, rows) = (section.functions(), (5_000 * 20 + 3 * 20_000) * 64);
    let count = rows / 20_000;
    assert_eq!(functions.flatten().count(), count);
    let offset = at(28 + 20 * count);
    let expected = Error::TooManyFres { offset, sum: 20_000 * (count as u64 + 1) };
    assert_eq!(section.validate(), Err(expected));
    assert_eq!(
        section.functions().nth(4_999).unwrap().err(),
        Some(Error::TooManyFres { offset: at(28 + 20 * 4_999), sum: 20_000 * (count as u64 + 1) })
    );
    let mut text = String::new();
    section.dump(&mut text, ".sframe").unwrap();
    assert_eq!(text.matches("too many for the table's length").count(), 5_000 - count);
    assert_eq!(error(&shared(20, 512)), None);
}

#[test]
fn registers_that_do_not_exist() {
    // gas 2.47 misreads some expressions and writes register 2^29-1. For a frame pointer the row is read,
    // because the CFA and the return address are correct. For a CFA it is refused.
    let fp: &[u8] = &[0, 0x4a, 0x39, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0xfb, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let cfa: &[u8] = &[0, 0x44, 0xf9, 0xff, 0xff, 0xff, 8, 0, 0, 0];
    let make =
        |fre| table(Version::V3, Abi::Amd64, SORTED, &[Function::new(ADDRESS, 9, &[fre]).with(0, 1, 0)]);
    assert_eq!(error(&make(fp)), None);
    assert!(matches!(error(&make(cfa)), Some(Error::Register { value: 0x1fff_ffff, .. })));
}

/// Returns tables of every version, both byte orders and every architecture.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = vec![sample()];
    let plain = Function::new(ADDRESS + 0x1000, 0x20, &[&[0, 3, 8], &[1, 5, 16, 0xf0]]);
    samples.push(table(Version::V1, Abi::Amd64, Flags::FDE_SORTED, &[plain.clone(), plain]));
    let files = [
        "x86_64/x_mixed_flex.gas247.o",
        "x86_64/x_remember_nested.gas244.o",
        "x86_64/x_dup_value.llvm23.o",
        "aarch64/a_pac_b_two.gas247.o",
        "aarch64_be/a_be_size_300.gas247.o",
        "s390x/s_fp_ra_reg.gas247.o",
        "s390x/s_undef_ra_back.gas247.o",
    ];
    let objects = readelf::objects();
    for file in files {
        let (path, _) = objects.iter().find(|(path, _)| path.ends_with(file)).expect(file);
        samples.push(elf::sframe(&fs::read(path).unwrap()).unwrap());
    }
    samples
}

#[test]
fn any_length() {
    for bytes in samples() {
        for len in 0..bytes.len() {
            // Zeros may follow a table, but they do not complete one.
            let cut = Section::parse(&bytes[..len], Address(ADDRESS));
            let padding = bytes[len..].iter().all(|&byte| byte == 0);
            assert!(cut.is_err() || padding, "{len} of {}", bytes.len());
        }
        assert_eq!(Section::parse(&bytes[..27], Address(0)).err(), Some(Error::TooShort { len: 27 }));
        for padding in [1, 8, 100] {
            let padded = [&bytes[..], &vec![0; padding]].concat();
            Section::parse(&padded, Address(ADDRESS)).unwrap();
        }
        let joined = [&bytes[..], &[0, 0, 1]].concat();
        let trailing = Error::Trailing { offset: at(bytes.len() + 2), value: 1 };
        assert_eq!(Section::parse(&joined, Address(ADDRESS)).err(), Some(trailing));
    }
}

#[test]
fn tables_one_behind_the_other() {
    let table = sample();
    let both = [&table[..], &table].concat();
    let (_, rest) = Section::parse_first(&both, Address(ADDRESS)).unwrap();
    assert_eq!(rest, table);
    let trailing = Error::Trailing { offset: at(table.len()), value: 0xe2 };
    assert_eq!(Section::parse(&both, Address(ADDRESS)).err(), Some(trailing));
}
