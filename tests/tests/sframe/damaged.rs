//! Damaged inputs through container, encoder, decoder and verifier: errors, never a panic, and time
//! that does not run away.

use cfipack_cfi as cfi;
use cfipack_container::{File, Placement, members};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Builder, Options, Parallel};
use cfipack_format::pool::Serial;
use cfipack_format::{Address, Arch, Key};
use cfipack_roundtrip::{Table, verify};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::convert::{all_options, convert};
use cfipack_tests::corpora::{self, Golden};

/// The values that every byte is set to, beside having each bit flipped.
const VALUES: [u8; 4] = [0x00, 0x7f, 0x80, 0xff];

/// A few goldens that between them have every structure.
fn goldens() -> Vec<Golden> {
    let chosen = |golden: &Golden| {
        let names = [
            "x86_64/x_mixed_flex",
            "x86_64/x_personality",
            "aarch64/a_pac_b",
            "s390x/s_fp_ra_reg",
            "aarch64_be/a_be",
        ];
        names.contains(&golden.name.as_str())
    };
    let goldens: Vec<_> = corpora::sframe("gas247").into_iter().filter(chosen).collect();
    assert_eq!(goldens.len(), 5);
    goldens
}

/// A compiler's output: several functions that share a CIE.
fn real_code() -> Golden {
    corpora::sframe("gas247").into_iter().find(|golden| golden.name == "x86_64/x_real_gcc_r").unwrap()
}

/// Every byte of `bytes` damaged in every way, and every truncation.
fn each_damage(bytes: &[u8], mut check: impl FnMut(&[u8])) {
    let mut damaged = bytes.to_vec();
    for at in 0..bytes.len() {
        let flipped = (0..8).map(|bit| bytes[at] ^ 1 << bit);
        for value in flipped.chain(VALUES) {
            damaged[at] = value;
            check(&damaged);
        }
        damaged[at] = bytes[at];
        check(&bytes[..at]);
    }
}

/// Calls every reader of a table.
fn use_table(bytes: &[u8]) {
    let address = Address(0x1000);
    let Ok(section) = Section::parse(bytes, address) else { return };
    let valid = section.validate();
    let mut text = String::new();
    section.dump(&mut text, ".sframe").unwrap();
    for (index, function) in section.functions().enumerate().take(50) {
        let Ok(function) = function else {
            assert!(valid.is_err(), "function {index} cannot be read, and the table is called valid");
            continue;
        };
        let _ = (function.fre_bytes(), section.find(function.start()), section.lookup(function.start()));
        for row in function.rows().take(50).flatten() {
            let _ = function.lookup(row.start);
        }
    }
}

/// Everything that can be done with CFI; a table made of it is well-formed and true.
fn use_cfi(section: cfi::Section<'_>) {
    for options in all_options() {
        let mut builder = Builder::new(section.arch, options).unwrap();
        builder.push_all(Parallel::new(&section, &Serial), |_| ());
        let mut one_by_one = Builder::new(section.arch, options).unwrap();
        for function in cfipack_cfi::Functions::new(&section).flatten() {
            let _ = one_by_one.push(&function);
        }
        let address = section.address;
        let [bytes, again] = [builder, one_by_one].map(|builder| {
            let table = builder.finish();
            let mut bytes = vec![0; table.len()];
            table.write(&mut bytes, address, Key::address).map(|_| bytes)
        });
        assert_eq!(bytes, again, "{options:?}: the way in makes a difference");
        let Ok(bytes) = bytes else { continue }; // version 2, and a function too far away
        let table = Section::parse(&bytes, address).expect("what was written can be read");
        table.validate().expect("what was written is valid");
        let tables = [table];
        let report = verify(&[section], &Table::new(&tables), &Default::default());
        // If gimli cannot read the FDE, its PCs are unknown.
        let judged = report.unverified.iter().all(|function| function.function.is_some());
        if judged && !overlap(&section) {
            assert_eq!(report.pcs_different, 0, "{options:?}: {}", report.differences[0]);
        }
    }
}

/// Whether two functions have a PC in common: then it is undefined which one a lookup finds.
fn overlap(section: &cfi::Section<'_>) -> bool {
    let functions = cfipack_cfi::Functions::new(section).flatten();
    let mut ranges: Vec<_> = functions.map(|f| (f.key.0, f.key.0.saturating_add(f.size))).collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[0].1 > pair[1].0)
}

fn use_file(bytes: &[u8]) {
    if let Ok(members) = members(bytes) {
        members.take(10).for_each(|member| {
            let _ = member;
        });
    }
    for placement in [Placement::Zero, Placement::Apart] {
        let Ok(file) = File::parse_with(bytes, placement) else { continue };
        for section in file.call_frame_sections().unwrap_or_default() {
            cfipack_cfi::Functions::new(&section.cfi()).take(100).for_each(|function| {
                let _ = function;
            });
        }
        for section in file.sframe_sections().unwrap_or_default() {
            use_table(&section.bytes);
            let _ = section.index.map(|index| file.relocations(index).is_ok());
        }
        let _ = (file.code_sections().is_ok(), file.as_elf().map(|elf| elf.eh_frame_hdr_size()));
        let _ = file.symbols().map(|symbols| symbols.lookup(Address(0x1_0000)).is_some());
    }
}

#[test]
fn tables() {
    for golden in goldens() {
        let file = File::parse(&golden.object).unwrap();
        for section in file.sframe_sections().unwrap() {
            each_damage(&section.bytes, use_table);
        }
    }
}

#[test]
fn call_frame_information() {
    for golden in goldens() {
        let file = File::parse(&golden.object).unwrap();
        for found in file.call_frame_sections().unwrap() {
            let section = found.cfi();
            each_damage(section.bytes, |bytes| use_cfi(section.with_bytes(bytes)));
        }
    }
}

/// The CIE pointer of an FDE is the distance to the CIE before it; in this test it leads to no CIE.
#[test]
fn cie_pointers_without_a_cie() {
    for golden in goldens().into_iter().chain([real_code()]) {
        let file = File::parse(&golden.object).unwrap();
        for found in file.call_frame_sections().unwrap() {
            let section = found.cfi();
            for at in (0..section.bytes.len() - 4).step_by(4) {
                let here = at as u32;
                for value in [here, here + 1, here + 2, here + 4, here.wrapping_sub(1), u32::MAX] {
                    let mut bytes = section.bytes.to_vec();
                    bytes[at..at + 4].copy_from_slice(&golden.arch.endian().put_u32(value));
                    use_cfi(section.with_bytes(&bytes));
                }
            }
        }
    }
}

#[test]
fn objects() {
    for golden in goldens() {
        each_damage(&golden.object, use_file);
    }
}

/// Several bytes at once, in tables with more than one function.
#[test]
fn tables_with_many_errors() {
    let (seed, count) = cases("tables with many errors", 2000);
    let mut random = Random::new(seed);
    let golden = real_code();
    let file = File::parse(&golden.object).unwrap();
    let call_frames = file.call_frame_sections().unwrap();
    for options in all_options() {
        let whole = convert(&[call_frames[0].cfi()], Arch::Amd64, Address(0x1000), options).bytes;
        for _ in 0..count {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(6) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            use_table(&bytes);
        }
    }
}

/// Counts and sizes far beyond the input's cost neither time nor memory.
#[test]
fn huge_counts() {
    let golden = &goldens()[0];
    let file = File::parse(&golden.object).unwrap();
    let table = file.sframe_sections().unwrap().remove(0).bytes.into_owned();
    for field in (8..table.len() - 4).step_by(4) {
        for value in [u32::MAX, 0x7fff_ffff, 0x8000_0000, 0x00ff_ffff] {
            let mut bytes = table.clone();
            bytes[field..field + 4].copy_from_slice(&golden.arch.endian().put_u32(value));
            use_table(&bytes);
        }
    }
    let found = file.call_frame_sections().unwrap().remove(0);
    let section = found.cfi();
    let length = section.bytes.len();
    for field in 0..length - 4 {
        let mut bytes = section.bytes.to_vec();
        bytes[field..field + 4].fill(0xff);
        let mut builder = Builder::new(section.arch, Options::default()).unwrap();
        for function in cfipack_cfi::Functions::new(&section.with_bytes(&bytes)).flatten() {
            let _ = builder.push(&function);
        }
        assert!(builder.finish().len() < 100 * length, "a table out of proportion to its CFI");
    }
}
