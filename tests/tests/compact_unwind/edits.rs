//! Writes rows into objects. By the crate `object`, nothing else may change.

use cfipack_container::{Error, File};
use cfipack_edit::{CompactUnwindEdit, CompactUnwindEditor};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::structure::check_compact_unwind_edit;
use cfipack_tests::corpora;

/// Changes every row of the object, and adds `new` rows.
fn edited(bytes: &[u8], new: usize) -> Result<Option<Vec<u8>>, Error> {
    let file = File::parse(bytes)?;
    let Some(editor) = CompactUnwindEditor::of(&file)? else { return Ok(None) };
    let lsda = file.symbols()?.addresses().next();
    let mut edits = Vec::new();
    let encoding = Encoding(0x0200_1000);
    let edit =
        CompactUnwindEdit { row: None, function: Address(0), length: 4, encoding, personality: None, lsda };
    for row in file.as_macho().unwrap().compact_unwind()?.iter().flat_map(|compact| &compact.rows) {
        edits.push(CompactUnwindEdit {
            row: Some(row.offset),
            function: row.function,
            personality: Some(0),
            ..edit
        });
    }
    edits
        .extend(file.symbols()?.addresses().take(new).map(|function| CompactUnwindEdit { function, ..edit }));
    let rewrite = editor.rewrite(&edits)?;
    assert_eq!(rewrite.to_vec(bytes).len(), rewrite.len());
    Ok(Some(rewrite.to_vec(bytes)))
}

/// Returns the objects of ld64.lld's links and of llvm-mc's cases, without the large ones.
fn objects() -> Vec<(String, Vec<u8>)> {
    let links = corpora::compact_unwind_links().into_iter().map(|link| (link.name, link.object));
    let assembled = corpora::compact_unwind_objects().into_iter().map(|case| (case.name, case.object));
    let objects = links.chain(assembled).filter(|(_, object)| object.len() < 20_000);
    objects.filter(|(_, object)| matches!(arch(object), Some(Arch::Amd64 | Arch::Aarch64))).collect()
}

fn arch(object: &[u8]) -> Option<Arch> {
    File::parse(object).ok().map(|file| file.arch())
}

#[test]
fn nothing_else_changes() {
    let (mut grown, mut created) = (0, 0);
    for (name, old) in objects() {
        for count in [0, 1, 5] {
            let new = edited(&old, count).unwrap_or_else(|error| panic!("{name}: {error}")).unwrap();
            check_compact_unwind_edit(&old, &new).unwrap_or_else(|error| panic!("{name}, {count}: {error}"));
            let rows = |bytes: &[u8]| {
                let compact = File::parse(bytes).unwrap().as_macho().unwrap().compact_unwind().unwrap();
                compact.map(|compact| compact.rows.len())
            };
            let symbols = File::parse(&old).unwrap().symbols().unwrap().addresses().count();
            assert_eq!(rows(&new).unwrap_or(0), rows(&old).unwrap_or(0) + count.min(symbols), "{name}");
            grown += usize::from(rows(&old).is_some() && rows(&new) > rows(&old));
            created += usize::from(rows(&old).is_none() && rows(&new).is_some());
        }
    }
    assert!(grown > 100 && created > 3, "{grown} {created}");
}

/// The check must notice any changed byte of sections, symbols or load commands.
#[test]
fn the_check_finds_other_changes() {
    let (name, old) = objects().into_iter().find(|(name, _)| name.ends_with("5_lsda_same")).unwrap();
    let new = edited(&old, 2).unwrap().unwrap();
    let mut unnoticed = Vec::new();
    for at in 0..new.len() {
        let mut changed = new.clone();
        changed[at] ^= 0x40;
        if check_compact_unwind_edit(&old, &changed).is_ok() {
            unnoticed.push(at);
        }
    }
    // The only free bytes: rows and their relocations, some fields of the section header, the segment's sizes, and padding.
    let free = 7 * 32 + 21 * 8 + 80 + 72 + 64;
    assert!(unnoticed.len() < free, "{name}: {} of {}: {unnoticed:?}", unnoticed.len(), new.len());
}

#[test]
fn refusals_have_names() {
    let (_, object) = objects()
        .into_iter()
        .find(|(name, _)| name == "x02_rbp")
        .or_else(|| objects().into_iter().find(|(name, _)| name.starts_with('x')))
        .unwrap();
    let refused = |at: usize, bytes: [u8; 4]| {
        let mut damaged = object.clone();
        damaged[at..at + 4].copy_from_slice(&bytes);
        edited(&damaged, 1).unwrap_err().to_string()
    };
    // The CPU is arm64_32, and the file an executable; the last command is LC_CODE_SIGNATURE.
    assert_eq!(refused(4, 0x0200_000c_u32.to_le_bytes()), "offset 0x4: CPU type 0x200000c is not supported");
    assert_eq!(refused(12, 2_u32.to_le_bytes()), "offset 0xc: file type 0x2 is not supported");
    let symtab = object.windows(8).position(|window| window == [2, 0, 0, 0, 24, 0, 0, 0]).unwrap();
    let expected = format!("offset {symtab:#x}: load command 0x1d is not supported");
    assert_eq!(refused(symtab, 0x1d_u32.to_le_bytes()), expected);
}
