//! Changes one byte of a table in objects of the corpora. If the merger accepts the table, the output has exactly the
//! rows that the decoder reads from the changed bytes.

use std::collections::BTreeMap;
use std::fs;

use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::{Layout, Options as TableOptions};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Key, Row, SectionOffset};
use cfipack_linker::sframe::{Contribution, Field, Live, Merger, Note, Object, Options, Prefer};
use cfipack_tests::corpora;
use cfipack_tests::elf_object::ElfObject;

/// What a table says about a function: size, repetition size, and the possible rows.
#[derive(Clone, PartialEq, Debug)]
struct Meaning {
    size: u32,
    repeats: Option<u16>,
    is_signal_frame: bool,
    has_pauth_key_b: bool,
    rows: Vec<Row>,
}

/// Returns `None` if a row cannot be read.
fn meaning(function: &decoder::Function<'_>) -> Option<Meaning> {
    let mut rows: Vec<Row> = Vec::new();
    let repeats = function.is_pc_mask().then(|| function.rep_size());
    let end = repeats.map_or(function.size(), u32::from);
    for row in function.rows() {
        let row = row.ok()?;
        // Rows at a function's end answer for no PC, and neither does a row that is replaced at its own start.
        if row.start.0 >= end {
            continue;
        }
        if rows.last().is_some_and(|last| last.start == row.start) {
            rows.pop();
        }
        if rows.last().is_none_or(|last| !last.unwinds_as(&row)) {
            rows.push(row);
        }
    }
    let (is_signal_frame, has_pauth_key_b) = (function.is_signal_frame(), function.has_pauth_key_b());
    Some(Meaning { size: function.size(), repeats, is_signal_frame, has_pauth_key_b, rows })
}

/// The place of the field is the function's key.
fn live(field: Field) -> Option<Live> {
    match field {
        Field::Sframe(SectionOffset(at)) => Some(Live::new(Key(at as u64))),
        _ => None,
    }
}

const TABLE: Address = Address(0x40_0000_0000);

/// Places functions so far apart that no size makes them overlap.
fn address_of(key: Key) -> Address {
    Address(key.0 << 33)
}

/// Reads all tables of a section with the decoder, by key. `None` stands for a function that cannot be read.
fn expected(bytes: &[u8]) -> BTreeMap<Key, Option<Meaning>> {
    let mut all = BTreeMap::new();
    for table in decoder::Section::concatenated(bytes, Address(0)).map_while(Result::ok) {
        for index in 0..table.num_functions() {
            let key = Key(table.address().0 + table.fde_offset(index).0 as u64);
            let function = table.function(index).unwrap();
            all.insert(key, function.ok().and_then(|function| meaning(&function)));
        }
    }
    all
}

fn check(arch: Arch, bytes: &[u8], options: Options, name: &str) -> Contribution {
    let mut merger = Merger::new(arch, options).unwrap();
    let mut notes = Vec::new();
    let sum = merger.push_object(&Object::new().with_sframe(bytes), live, |note| notes.push(note));
    let section = merger.finish();
    let mut out = vec![0; section.len()];
    let apart = |key: Key| Address(address_of(key).0.min(1 << 62));
    let write = section.write(&mut out, TABLE, apart);
    if options.table.version == Version::V2 {
        // Version 2 cannot place functions so far apart, so the table is written for relocation.
        section.write_relocatable(&mut out).unwrap();
    } else {
        write.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let expected = expected(bytes);
    let table = decoder::Section::parse(&out, TABLE).unwrap_or_else(|error| panic!("{name}: {error}"));
    let keys: Vec<Key> = match options.table.version {
        Version::V2 => section.relocations().map(|relocation| relocation.function).collect(),
        _ => table.functions().map(|function| Key(function.unwrap().start().0 >> 33)).collect(),
    };
    for (function, key) in table.functions().zip(keys) {
        let mut found =
            meaning(&function.unwrap()).unwrap_or_else(|| panic!("{name}: a row that means nothing"));
        let Some(Some(expected)) = expected.get(&key) else { panic!("{name}: {key} has rows: {found:?}") };
        if found.repeats.is_some() {
            found.repeats = expected.repeats;
        }
        let mut expected = expected.clone();
        if options.table.version == Version::V2 {
            expected.is_signal_frame = false;
        }
        assert_eq!(found, expected, "{name}: {key}");
    }
    // Each function has rows, is named, or belongs to a table that is named.
    let named = notes.iter().filter(|note| matches!(note, Note::Omitted(_))).count();
    let is_skipped = notes.iter().any(|note| matches!(note, Note::Skipped { .. }));
    let taken = expected.values().flatten().filter(|it| it.size != 0 || options.table.layout == Layout::Gnu);
    if !is_skipped {
        assert!(table.num_functions() + named >= taken.count(), "{name}: {notes:?}");
    }
    sum
}

fn tables() -> Vec<(String, Arch, Vec<u8>)> {
    let mut found = Vec::new();
    for (directory, arch) in [
        ("x86_64", Arch::Amd64),
        ("aarch64", Arch::Aarch64),
        ("aarch64_be", Arch::Aarch64Be),
        ("s390x", Arch::S390x),
    ] {
        let files = fs::read_dir(corpora::directory().join("sframe").join(directory)).unwrap();
        for path in
            files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|it| it == "o"))
        {
            let object = ElfObject::parse(&fs::read(&path).unwrap());
            if let Some(bytes) = object.table().sframe.filter(|bytes| bytes.len() < 1 << 10) {
                found.push((path.file_name().unwrap().to_str().unwrap().to_owned(), arch, bytes.to_vec()));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() > 100, "{} tables", found.len());
    found
}

#[test]
fn one_byte_changed() {
    let (mut taken, mut skipped) = (0, 0);
    for (number, (name, arch, bytes)) in tables().into_iter().enumerate() {
        for at in 0..bytes.len() {
            for (turn, change) in [1_u8, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff].into_iter().enumerate() {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                let layout = if (at + turn) % 2 == 0 { Layout::Small } else { Layout::Gnu };
                let version = if (number + turn) % 3 == 0 { Version::V2 } else { Version::V3 };
                let table = TableOptions::new().with_layout(layout).with_version(version);
                let options = Options::new().with_prefer(Prefer::TableOnly).with_table(table);
                let name = format!("{name}, byte {at:#x} ^ {change:#x}, {layout:?} {version:?}");
                let sum = check(arch, &changed, options, &name);
                if sum.skipped == 0 { taken += 1 } else { skipped += 1 }
            }
        }
    }
    println!("{taken} tables taken, {skipped} skipped");
    assert!(taken > 1000 && skipped > 1000, "{taken} {skipped}");
}
